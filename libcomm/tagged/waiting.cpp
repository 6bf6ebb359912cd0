// Waiting: poll, then yield, then sleep on the doorbell (design: "Waiting").
#include <sched.h>

#include "tagged/impl.hpp"

namespace weft::tagged {
namespace {

// A sleep ends at least this often, to look for lost peers; with no asymmetric fence, often enough
// that a doorbell missed in the race between "going to sleep" and "look" does not hurt.
constexpr std::uint64_t kSleepUs = 50'000;
constexpr std::uint64_t kShortSleepUs = 500;
// The first polls of a wait follow each other at once: a pause is longer than a poll, and what
// comes soon is seen later by half of it.
constexpr unsigned kBusyPolls = 64;
// Pieces copied between two looks for lost peers.
constexpr unsigned kCopyRound = 32;

// Counts the threads that wait at the same time; null: there is only one.
class Counted {
 public:
  explicit Counted(std::atomic<int>* count) noexcept : count_(count) {
    if (count_ != nullptr) count_->fetch_add(1, std::memory_order_relaxed);
  }
  ~Counted() {
    if (count_ != nullptr) count_->fetch_sub(1, std::memory_order_relaxed);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>* count_;
};

}  // namespace

void Engine::Impl::wait(const WaitCondition& condition) {
  const Counted counted(threaded ? &num_waiting : nullptr);
  // After every progress(): what has arrived may let it go on.
  const auto run_background = [this](bool before_sleep) {
    if (auto* work = background.load(std::memory_order_acquire)) work(before_sleep);
  };
  // One thread at a time makes progress; the others look at their own condition meanwhile. True:
  // what became complete may be what another thread waits for.
  const auto poll = [&] {
    bool any = false;
    if (!threaded) {
      progress();
    } else if (mutex.try_lock()) {
      const std::uint64_t before = num_completed;
      progress();
      any = num_completed != before;
      mutex.unlock();
    }
    run_background(false);
    return any && num_waiting.load(std::memory_order_relaxed) > 1;
  };
  // With remote peers a poll costs system calls: fewer polls before the first look at the clock,
  // and a yield now and then for whoever else needs this core to answer.
  if (!crowded) {
    const unsigned round = has_remote.load(std::memory_order_relaxed) ? 8 : 128;
    std::uint64_t limit = 0;
    for (unsigned i = 1;; ++i) {
      const bool handed_over = poll();
      if (condition()) return;
      // The other thread may need this core to go on.
      if (handed_over) sched_yield();
      if (i > kBusyPolls) cpu_relax();
      if (i % round == 0) {
        if (has_remote.load(std::memory_order_relaxed)) sched_yield();
        const std::uint64_t now = now_ns();
        if (limit == 0) limit = now + spin_ns;
        if (now >= limit) break;
      }
    }
  }
  std::uint64_t limit = 0;
  for (unsigned i = 1;; ++i) {
    poll();
    if (condition()) return;
    sched_yield();
    if (i % 16 == 0) {
      const std::uint64_t now = now_ns();
      if (limit == 0) limit = now + yield_ns;
      if (now >= limit) break;
    }
  }
  auto& sleeping = local->sleeping(0);
  DoorbellSleep sleep;
  // Whether the next poll finds something to do, whatever the doorbell says. `seen`: what was
  // complete when the background was last run.
  const auto has_work = [this](std::uint64_t seen) {
    const Guard guard(*this);
    return left_entries || has_copies() || num_completed != seen;
  };
  std::uint64_t seen = 0;
  for (;;) {
    {
      const Guard guard(*this);
      check_liveness();
      seen = num_completed;
    }
    for (unsigned i = 0; i < kCopyRound && has_work(seen); ++i) {
      poll();
      if (condition()) return;
      if (crowded) sched_yield();
    }
    const std::uint32_t armed = arm_doorbell(sleeping);
    // Not poll(): who holds the lock may be sending, and look at nothing.
    {
      const Guard guard(*this);
      progress();
      seen = num_completed;
    }
    run_background(true);
    // A condition that makes progress of its own, as a probe does, may let the background go on.
    const bool done = condition();
    if (!done && !has_work(seen)) {
      if (has_remote.load(std::memory_order_acquire)) fabrics->watcher()->arm(sleeping);
      sleep.sleep(sleeping, armed, fence_works ? kSleepUs : kShortSleepUs);
      poll();
    }
    // Other threads may have armed it: then it stays, at the cost of one needless wake.
    if (!threaded) sleeping.fetch_and(~kDoorbellArmed, std::memory_order_relaxed);
    if (done || condition()) return;
  }
}

void Engine::rest() {
  {
    const Guard guard(*impl_);
    impl_->check_liveness_if_due();
  }
  if (impl_->crowded) sched_yield();
}

}  // namespace weft::tagged
