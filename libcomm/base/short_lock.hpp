#pragma once
// ShortLock: a mutex for work that mostly takes less time than a sleep and a wake: threads that
// find it held try again at growing distances, which leaves its cache line to the holder, then
// yield, then sleep. Not fair: a thread with many short pieces of work does several of them in a
// row, while the data are in its cache. Not inlined, so that callers that mostly need no lock stay
// small.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/wait.hpp"

namespace weft {

class ShortLock {
 public:
  bool try_lock() noexcept {
    std::uint32_t expected = kFree;
    // acquire: makes the last holder's writes visible; pairs with unlock().
    return state_.load(std::memory_order_relaxed) == kFree &&
           state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  [[gnu::noinline]] void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      lock_slowly();
  }
  [[gnu::noinline]] void unlock() noexcept {
    if (state_.exchange(kFree, std::memory_order_release) == kSleepers) [[unlikely]]
      futex_wake_all(&state_);
  }

 private:
  enum : std::uint32_t { kFree, kHeld, kSleepers };  // the last: held, and threads may sleep
  // Pauses in all, and between two tries at most: with more in a row short gaps are missed.
  static constexpr unsigned kPauses = 128, kMostPauses = 8;
  static constexpr unsigned kYields = 50;
  static constexpr std::uint64_t kSleepUs = 10'000;  // whoever wakes tries again

  [[gnu::noinline]] void lock_slowly() noexcept {
    if (spin()) return;
    while (state_.exchange(kSleepers, std::memory_order_acquire) != kFree)
      futex_wait(&state_, kSleepers, kSleepUs);
  }
  // Returns true with the lock held.
  bool spin() noexcept {
    unsigned pauses = 1;
    for (unsigned total = 0; total < kPauses; total += pauses) {
      for (unsigned i = 0; i < pauses; ++i) cpu_relax();
      if (try_lock()) return true;
      pauses = std::min(2 * pauses, kMostPauses);
    }
    for (unsigned i = 0; i < kYields; ++i) {
      sched_yield();  // the holder may have lost its core
      if (try_lock()) return true;
    }
    return false;
  }

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace weft
