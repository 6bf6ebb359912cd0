#pragma once
// Doorbell: a word on which threads of one process sleep until any process rings. Bit 0 is set
// while a thread sleeps or is about to; the other bits count the rings that found it set.
//
// A waiting thread checks its condition; arms the doorbell; checks once more; sleeps on the armed
// value; and begins anew. A publishing thread publishes, then rings. Several threads may wait on
// one doorbell: the count keeps each from sleeping through a ring that came after it armed, even if
// another one has armed it again since.
//
// Tests: tests/exchange/model/doorbell_model_test.cpp explores all interleavings.
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/wait.hpp"

namespace weft {

inline constexpr std::uint32_t kDoorbellArmed = 1;

// Announces that the caller may sleep. The caller checks once more before it sleeps on the result.
inline std::uint32_t arm_doorbell(std::atomic<std::uint32_t>& doorbell) noexcept {
  const std::uint32_t armed =
      doorbell.fetch_or(kDoorbellArmed, std::memory_order_seq_cst) | kDoorbellArmed;
  heavy_fence();  // pairs with the compiler fence in ring_doorbell()
  return armed;
}

// A sleep ends at least this often, to check for lost peers; with no asymmetric fence, often enough
// that a ring missed in the race between arming and the last check does not hurt.
constexpr std::uint64_t longest_sleep_us(bool fence_works) noexcept {
  return fence_works ? 50'000 : 500;
}

// The sleeps of one wait. A core that has long had nothing to do takes twice the time to wake up
// (deep idle states; under a hypervisor, a processor that was given to others), so in its first ten
// seconds a wait wakes up every 5 ms, for a percent of a core. Where more ranks than cores are on
// the host it does not: the cores are busy, and the wake-ups of all waits would add up.
class DoorbellSleep {
 public:
  explicit DoorbellSleep(bool is_crowded) : slept_us_(is_crowded ? kNappingUs : 0) {}
  // Until the doorbell has been rung since it was armed, at most timeout_us.
  void sleep(const std::atomic<std::uint32_t>& doorbell, std::uint32_t armed,
             std::uint64_t timeout_us) noexcept {
    while (timeout_us > 0 && doorbell.load(std::memory_order_relaxed) == armed) {
      const std::uint64_t once = slept_us_ < kNappingUs ? std::min(timeout_us, kNapUs) : timeout_us;
      futex_wait(&doorbell, armed, once);
      timeout_us -= once;
      slept_us_ += once;
    }
  }

 private:
  static constexpr std::uint64_t kNapUs = 5'000;
  static constexpr std::uint64_t kNappingUs = 10'000'000;
  std::uint64_t slept_us_;
};

// Wakes threads that may be asleep. Call after publishing what they wait for. The order "publish,
// then check" is kept by the compiler here and by the sleeper's heavy_fence(): either the ringing
// thread sees that the doorbell is armed, or the sleeper sees the published data before it falls
// asleep.
inline void ring_doorbell(std::atomic<std::uint32_t>& doorbell) noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::uint32_t seen = doorbell.load(std::memory_order_relaxed);
  // Once it is not armed, another thread has rung, or the sleeper will check once more.
  while ((seen & kDoorbellArmed) != 0) [[unlikely]] {
      if (!doorbell.compare_exchange_weak(seen, seen + kDoorbellArmed, std::memory_order_seq_cst))
        continue;
      return futex_wake_all(&doorbell);
    }
}

}  // namespace weft
