#pragma once
// SpinLock: for a few hundred nanoseconds at most; the holder makes no system call.
#include <sched.h>

#include <atomic>

#include "base/wait.hpp"

namespace weft {

class SpinLock {
 public:
  void lock() noexcept {
    for (int spins = 0; !try_lock(); ++spins) {
      if (spins < 100)
        cpu_relax();
      else
        sched_yield();  // the holder may have lost its core
    }
  }
  bool try_lock() noexcept {
    // acquire: makes the last holder's writes visible; pairs with unlock().
    return !locked_.load(std::memory_order_relaxed) &&
           !locked_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

}  // namespace weft
