// The handshake of lanes inside a host: what a hostile peer wrote into an entry of the directory. A
// ring that is accepted must be there, from its first byte to the page behind its end.
#include <cstdlib>
#include <cstring>

#include "fabric/shm/arena.hpp"

using namespace weft;
using namespace weft::shm;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::shared_ptr<Arena> arena = [] {
    std::shared_ptr<Arena> made;
    if (!Arena::create({2, 4096}, 1 << 20, made)) std::abort();
    return made;
  }();
  if (size < 12) return 0;
  LaneEntry& entry = arena->entry(0);
  std::memcpy(&entry.ring_bytes, data, 4);
  std::memcpy(&entry.offset, data + 4, 8);
  std::uint32_t bytes = 0;
  std::byte* ring = nullptr;
  if (!arena->map_lane(entry, bytes, ring)) return 0;
  if (bytes > (1 << 20)) std::abort();
  ring[0] = std::byte{1};
  ring[bytes + 4095] = std::byte{1};
  arena->unmap_lane(ring, bytes);
  return 0;
}
