// What another host's manager says. What is read must be what was written: encoded again it gives
// the same bytes, and an offer's parts are the object.
#include <cstdlib>
#include <cstring>

#include "objstore/shared/peer_wire.hpp"

using namespace weft::objstore;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  PeerMessage message;
  if (!decode(bytes, message)) return 0;
  const std::string again = encode(message);
  // A flag may be any byte but 0.
  if (again.size() != size) std::abort();
  if (message.kind != PeerKind::holders && message.kind != PeerKind::ask &&
      message.kind != PeerKind::watch && message.kind != PeerKind::push_answer &&
      std::memcmp(again.data(), data, size) != 0)
    std::abort();
  std::uint64_t sum = 0;
  for (const OfferPart& part : message.parts) sum += part.bytes;
  if (message.kind == PeerKind::offer && sum != message.data_bytes + message.metadata_bytes)
    std::abort();
  if (message.kind == PeerKind::data &&
      message.contents.size() != message.data_bytes + message.metadata_bytes)
    std::abort();
  return 0;
}
