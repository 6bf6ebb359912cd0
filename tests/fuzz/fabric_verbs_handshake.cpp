// What comes from outside while two processes connect over an RDMA device: hellos, refusals, and
// the wish for a lane, whose ring must then be cut in chunks that cover it. The input is 57 bytes:
// private data of 40, how many of them count, and the wish (bytes of the ring, end of its second
// chunk, channel).
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fabric/verbs/connection.hpp"
#include "fabric/verbs/handshake.hpp"

using namespace weft;
using namespace weft::verbs;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kKey[2] = {0x1111'1111'1111'1111u, 0x2222'2222'2222'2222u};
  constexpr std::size_t kRanks = 3;
  if (size < 57) return 0;
  Hello hello;
  const std::size_t told = data[40];
  // Nothing behind the length that was told may count.
  std::byte given[40];
  std::memcpy(given, data, sizeof given);
  if (read_hello(given, std::min<std::size_t>(told, sizeof given), kKey, kRanks, hello)) {
    if (told < sizeof hello || hello.rank >= kRanks || hello.key[0] != kKey[0] ||
        hello.key[1] != kKey[1])
      std::abort();
  }
  const std::uint32_t reason = read_refusal(given, std::min<std::size_t>(told, sizeof given));
  if (reason != 0 && told < sizeof(Refusal)) std::abort();

  Control open{};
  open.kind = ControlKind::open;
  std::memcpy(&open.b, data + 41, sizeof open.b);
  std::memcpy(&open.key, data + 49, sizeof open.key);
  std::memcpy(&open.a, data + 53, sizeof open.a);
  if (!is_possible_ring(open)) return 0;
  if (open.a > static_cast<std::uint32_t>(channel_number({kMaxClients, 0xff, 0xff}))) std::abort();
  LaneMemory ring;
  if (!ring.reserve(static_cast<std::uint32_t>(open.b), open.key)) return 0;
  std::uint64_t begin = 0;
  for (int i = 0; i < ring.num_chunks; ++i) {
    if (ring.chunks[i].begin != begin || ring.chunks[i].end <= begin) std::abort();
    begin = ring.chunks[i].end;
  }
  if (begin != ring.mapped_bytes || ring.mapped_bytes < open.b + kFirstChunk) std::abort();
  ring.base[0] = ring.base[ring.mapped_bytes - 1] = std::byte{1};
  ring.free();
  return 0;
}
