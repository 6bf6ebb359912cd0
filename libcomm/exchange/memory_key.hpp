#pragma once
// MemoryKey: what a RemoteMemory's opaque key holds. Any thread.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fabric/registry.hpp"
#include "rma/memory.hpp"
#include "weft/job.hpp"

namespace weft::transport {

struct MemoryKey {
  struct Name {
    std::uint32_t region = 0;
    std::uint32_t extra = 0;
  };
  Name names[fabric::kNumFabrics];  // [0]: on the owner's host; else by the fabric's number
  std::uint32_t counted = 0;        // bit k: users of names[k] count addresses from `start`

  // The memory as names[index] names it: by an offset in its registration, or by an address in the
  // owner.
  MemoryName memory(const RemoteMemory& memory, std::size_t index) const noexcept {
    return {(counted >> index & 1) != 0 ? memory.address - memory.start : memory.address,
            memory.bytes, names[index].region, names[index].extra};
  }
};
static_assert(sizeof(MemoryKey) == sizeof RemoteMemory{}.key);

inline MemoryKey key_of(const RemoteMemory& memory) noexcept {
  MemoryKey key;
  std::memcpy(&key, memory.key, sizeof key);
  return key;
}
inline void set_key(RemoteMemory& memory, const MemoryKey& key) noexcept {
  std::memcpy(memory.key, &key, sizeof key);
}

}  // namespace weft::transport
