#pragma once
// Lane: an ordered channel to or from one peer, and the doorbell that wakes a sleeping receiver.
// A lane is used by one thread at a time and needs no lock then.
#include <atomic>
#include <cstdint>

#include "base/copy.hpp"
#include "base/wait.hpp"
#include "fabric/fabric.hpp"
#include "transport/ring.hpp"

namespace weft {

// Wakes the owner of a doorbell if it may be asleep. Call after publishing what it waits for. The
// order "publish, then look" is kept by the compiler here and by the sleeper's heavy_fence():
// either we see that it sleeps, or it sees what we published before it falls asleep.
inline void ring_doorbell(std::atomic<std::uint32_t>& sleeping) noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (sleeping.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    if (sleeping.exchange(0, std::memory_order_seq_cst) != 0) futex_wake_all(&sleeping);
  }
}

// Fills an entry's place with data, of which `first` bytes lie in the head's line. The reader polls
// that line, so it comes last, after the others from the last to the first, except in short copies:
// else it would be taken back in between. past_cache: see copy_past_cache.
inline void fill_entry(std::byte* to, const void* from, std::size_t length, std::size_t first,
                       bool past_cache) noexcept {
  constexpr std::size_t kShort = 304;  // five lines with the head
  if (length <= kShort) return copy_small(to, from, length);
  const auto* data = static_cast<const std::byte*>(from);
  if (past_cache) {
    copy_past_cache(to + first, data + first, length - first);
  } else {
    std::size_t end = length - (length - first) % kEntryAlign;
    copy_small(to + end, data + end, length - end);
    for (; end > first; end -= kEntryAlign)
      std::memcpy(to + end - kEntryAlign, data + end - kEntryAlign, kEntryAlign);
  }
  std::memcpy(to, data, first);
}

struct SendLane {
  RingWriter ring;
  std::atomic<std::uint32_t>* sleeping = nullptr;

  bool connected() const noexcept { return sleeping != nullptr; }
  // True if the receiver wants announcements only, as far as its last credit told.
  bool on_hold() const noexcept { return ring.flags() != 0; }

  void open(const SendMemory& memory, std::uint32_t capacity, std::uint32_t maximum) {
    ring.attach(memory.ring, capacity, maximum, memory.consumed);
    sleeping = memory.sleeping;
  }

  // False: no room now.
  bool send(std::uint8_t kind, std::uint64_t immediate, const void* data, std::size_t length,
            bool past_cache = false) noexcept {
    std::byte* to = ring.reserve(length);
    if (to == nullptr) return false;
    fill_entry(to, data, length, kInlineBytes, past_cache);
    ring.publish(kind, static_cast<std::uint32_t>(length), immediate);
    ring_doorbell(*sleeping);
    return true;
  }
};

struct ReceiveLane {
  RingReader ring;
  std::atomic<std::uint32_t>* sleeping = nullptr;  // of the sender, which may wait for credit
  std::uint64_t credit_step = 0;
  bool hold = false;  // ask the sender for announcements only

  void open(const ReceiveMemory& memory, std::uint32_t capacity, std::uint32_t maximum) {
    ring.attach(memory.ring, maximum, memory.consumed);
    sleeping = memory.sleeping;
    credit_step = capacity / 4;
  }

  // Gives back credit for what was popped once it is worth it, or at once when idle.
  void return_credit(bool idle) noexcept {
    if (ring.unreturned() >= credit_step || (idle && ring.unreturned() != 0)) return_now();
  }
  void return_now() noexcept {
    ring.return_credit(hold ? 1 : 0);
    ring_doorbell(*sleeping);
  }
};

}  // namespace weft
