#pragma once
// Doorbell: a word that is 1 while its owner may sleep on it. Any thread may ring.
#include <atomic>
#include <cstdint>

#include "base/wait.hpp"

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

}  // namespace weft
