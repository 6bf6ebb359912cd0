#pragma once
// The names that ranks give memory of each other, and the completion of accesses to it.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/status.hpp"

namespace weft {

// Names memory of a process; plain bytes, checked before each use.
struct MemoryName {
  std::uint64_t address;  // in the owner
  std::uint64_t bytes;
  std::uint32_t region;  // the owner's number of allocated or shared memory; 0: any other
  std::uint32_t extra;   // belongs to region (such as the key that a device wants)
};
static_assert(sizeof(MemoryName) == 24);
constexpr std::uint64_t number_of(const MemoryName& memory) noexcept {
  return std::uint64_t{memory.extra} << 32 | memory.region;
}
constexpr MemoryName named(std::uint64_t address, std::uint64_t bytes,
                           std::uint64_t number) noexcept {
  return {address, bytes, static_cast<std::uint32_t>(number),
          static_cast<std::uint32_t>(number >> 32)};
}

// Returns true if [first, first + count) lies in [address, address + bytes), for any values of a
// peer.
constexpr bool is_within(std::uint64_t first, std::uint64_t count, std::uint64_t address,
                         std::uint64_t bytes) noexcept {
  const std::uint64_t offset = first - address;
  return first >= address && offset <= bytes && count <= bytes - offset;
}

// The result of a get, put or atomic. The thread that completes it sets this, any thread may read
// it.
class Completion {
 public:
  bool is_done() const noexcept { return state_.load(std::memory_order_acquire) != kPending; }
  Code code() const noexcept { return static_cast<Code>(state_.load(std::memory_order_acquire)); }
  void reset() noexcept { state_.store(kPending, std::memory_order_relaxed); }
  // release: the data before it; pairs with the acquires above.
  void set(Code code) noexcept {
    state_.store(static_cast<std::uint32_t>(code), std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t kPending = 0x100;
  std::atomic<std::uint32_t> state_{kPending};
};

// Allocated memory of a peer of this host, all of it, as it is mapped here.
struct MappedMemory {
  std::byte* data = nullptr;
  std::uint64_t address = 0;  // in the owner
  std::uint64_t bytes = 0;
  const std::atomic<std::uint64_t>* current = nullptr;  // the owner's; not `number`: released
  std::uint64_t number = 0;                             // number_of() the mapped memory
  int peer = -1;
  void* mapping = nullptr;  // for the layer that mapped it

  bool is_valid() const noexcept {
    return data != nullptr && current->load(std::memory_order_acquire) == number;
  }
  // The address of `memory` here, or null if it is not all in this mapping.
  std::byte* find(const MemoryName& memory) const noexcept {
    return is_within(memory.address, memory.bytes, address, bytes)
               ? data + (memory.address - address)
               : nullptr;
  }
};

// A copy that two processes share: each claims pieces until none is left. Lies in memory that both
// have mapped, owned by the receiver.
struct alignas(64) SharedCopy {
  std::atomic<std::uint64_t> claimed;     // bytes claimed by either side, from the start
  std::atomic<std::uint64_t> done;        // bytes copied by either side
  std::atomic<std::uint64_t> given_back;  // offset + 1 of a piece the sender cannot copy
  std::atomic<std::uint64_t> given_back_bytes;
  std::atomic<std::uint32_t> failed;       // 1: a copy failed, both sides end with an error
  std::atomic<std::uint32_t> sender_left;  // 1: the sender will not touch the record again
};
static_assert(sizeof(SharedCopy) == 64);
inline constexpr std::uint32_t kNumSharedCopies = 256;

}  // namespace weft
