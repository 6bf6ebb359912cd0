// What verbs endpoints take from others: addresses, hellos and answers, keys, heads of messages.
// The input is a letter that says which (a, h, w, p, q, k, m), and its bytes; of a key, behind it
// the right, the offset and the length.
#include <cstdlib>
#include <cstring>

#include "fabric/verbs/endpoint_wire.hpp"

using namespace weft;
using namespace weft::fabric;
using namespace weft::fabric::verbs;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const char what = static_cast<char>(data[0]);
  const Bytes bytes{reinterpret_cast<const std::byte*>(data + 1), size - 1};
  if (what == 'a') {
    Address address;
    if (read_address(bytes, weft::verbs::Transport::roce, address) &&
        (bytes.size() != sizeof address || address.transport != weft::verbs::Transport::roce ||
         address.port == 0))
      std::abort();
  } else if (what == 'h' || what == 'w') {
    Hello hello;
    if (read_hello(bytes, what == 'w', hello) &&
        (hello.hello_bytes > sizeof hello.hello || bytes.size() < kAnswerBytes ||
         (what == 'h' && bytes.size() < sizeof hello) || hello.credit < 2))
      std::abort();
  } else if (what == 'p' || what == 'q') {
    Proof proof;
    const std::size_t before = what == 'q' ? kAnswerBytes : sizeof(Hello);
    if (read_proof(bytes, what == 'q', proof) && bytes.size() < before + sizeof proof) std::abort();
  } else if (what == 'm') {
    Head head;
    if (read_head(bytes.data(), bytes.size(), head) &&
        (sizeof head + head.length != bytes.size() || head.credit > kMostCredit))
      std::abort();
  } else if (what == 'k') {
    Key key;
    std::uint64_t offset = 0, length = 0;
    if (bytes.size() < key.size() + 17) return 0;
    std::memcpy(key.data(), bytes.data(), key.size());
    const auto right = static_cast<std::uint32_t>(bytes[key.size()]);
    std::memcpy(&offset, &bytes[key.size() + 1], 8);
    std::memcpy(&length, &bytes[key.size() + 9], 8);
    MemoryKey parts;
    if (read_key(key, right, offset, length, parts) != Code::ok) return 0;
    if (offset + length < offset || offset + length > parts.bytes ||
        (parts.check & right & kRightsMask) == 0)
      std::abort();
  }
  return 0;
}
