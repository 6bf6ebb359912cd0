// Waiting: poll, then yield, then sleep on the doorbell (design: "Waiting").
#include <sched.h>

#include "tagged/impl.hpp"

namespace weft::tagged {
namespace {

// The first polls of a wait follow each other without a pause, which would delay an early message
// by half its length.
constexpr unsigned kBusyPolls = 64;
// Polls of the awaited VCI for each poll of all others.
constexpr unsigned kPollsToOthers = 32;
// Chunks copied between two checks for lost peers.
constexpr unsigned kCopyRound = 32;

// Counts this thread among those that wait for something in a VCI, or in any; does nothing in
// processes with one thread.
class Counted {
 public:
  Counted(Engine::Impl& vci, bool everywhere) noexcept : vci_(vci), everywhere_(everywhere) {
    if (vci.threaded) count(1);
  }
  ~Counted() {
    if (vci_.threaded) count(-1);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  void count(int change) noexcept {
    if (!everywhere_) {
      vci_.num_waiting.fetch_add(change, std::memory_order_relaxed);
    } else if (change > 0) {
      vci_.shared.for_each([this](Engine::Impl& vci) {
        vci.num_waiting.fetch_add(1, std::memory_order_relaxed);
        counted_in_ |= 1u << vci.number;
      });
    } else {  // VCIs may have been created since
      vci_.shared.for_each([this](Engine::Impl& vci) {
        if ((counted_in_ >> vci.number & 1) != 0)
          vci.num_waiting.fetch_sub(1, std::memory_order_relaxed);
      });
    }
  }
  Engine::Impl& vci_;
  const bool everywhere_;
  unsigned counted_in_ = 0;
};

// Tells the observer of waits about one that lasts.
class LongWait {
 public:
  LongWait(Engine::Shared& shared, const Awaited& awaited) noexcept
      : shared_(shared), awaited_(awaited) {}
  void note(std::uint64_t now) noexcept {
    if (now >= next_) [[unlikely]]
      tell(now);
  }

 private:
  static constexpr std::uint64_t kFirstNs = 100'000'000, kAgainNs = 200'000'000;

  [[gnu::noinline]] void tell(std::uint64_t now) noexcept {
    if (since_ == 0) {
      since_ = now;
      next_ = now + kFirstNs;
      return;
    }
    next_ = now + kAgainNs;
    if (const auto observer = shared_.wait_observer.load(std::memory_order_relaxed))
      observer(awaited_, since_, slot_);
  }
  Engine::Shared& shared_;
  const Awaited awaited_;
  // Since it sleeps, which is some milliseconds at most after its start.
  std::uint64_t since_ = 0, next_ = 0;
  blocked::Slot slot_;
};

// One wait of a thread. Each of its parts returns true once the condition holds.
class Wait {
 public:
  Wait(Engine::Impl& vci, const WaitCondition& condition, bool everywhere,
       const Awaited& awaited) noexcept
      : vci_(vci), condition_(condition), everywhere_(everywhere), awaited_(awaited) {}

  // Polls for Waiting::spin_ns. Where a poll costs system calls there are fewer before the first
  // read of the clock, and a yield now and then for a process that needs this core to answer.
  bool spin() {
    const bool calls = vci_.shared.polls_by_calls.load(std::memory_order_relaxed);
    const unsigned round = calls ? 8 : 128;
    std::uint64_t limit = 0;
    for (unsigned i = 1;; ++i) {
      const bool handed_over = poll();
      if (condition_()) return true;
      // The other thread may need this core to go on.
      if (handed_over) sched_yield();
      if (i > kBusyPolls) cpu_relax();
      if (i % round == 0) {
        if (calls) sched_yield();
        if (is_over(limit, vci_.spin_ns)) return false;
      }
    }
  }

  // Polls, and lets others have the core between polls, for Waiting::yield_ns. A process with one
  // thread and a core of its own, whose peers have theirs, keeps it: whoever else takes it keeps it
  // for a time slice.
  bool yield() {
    const bool yields = vci_.crowded || vci_.threaded || has_remote();
    std::uint64_t limit = 0;
    for (unsigned i = 1;; ++i) {
      poll();
      if (condition_()) return true;
      // Where many processes share a core this may take long.
      if (yields)
        sched_yield();
      else
        cpu_relax();
      vci_.shared.run_control();
      if (i % 16 == 0 && is_over(limit, vci_.yield_ns)) return false;
    }
  }

  // Sleeps on the doorbell, and polls when that rings or a sleep's time is over.
  void sleep() {
    LongWait long_wait(vci_.shared, awaited_);
    auto& doorbell = vci_.local->sleeping(0);
    DoorbellSleep doorbell_sleep(vci_.crowded);
    for (;;) {
      vci_.shared.for_each([](Engine::Impl& vci) {
        const Guard guard(vci);
        vci.check_liveness();
      });
      vci_.shared.run_control();
      long_wait.note(now_ns());
      if (finish_work()) return;
      const std::uint32_t armed = arm_doorbell(doorbell);
      // Not poll(): the thread that holds the lock may be sending, and poll nothing.
      vci_.shared.for_each([](Engine::Impl& vci) {
        const Guard guard(vci);
        vci.progress();
      });
      vci_.shared.run_control();
      note_completed();
      run_background(true);
      // A condition that makes progress of its own, as a probe does, may let the background go on.
      const bool done = condition_();
      if (!done && !has_work()) {
        if (vci_.has_remote.load(std::memory_order_acquire)) vci_.fabrics->watcher()->arm(doorbell);
        doorbell_sleep.sleep(
            doorbell, armed,
            std::min<std::uint64_t>(longest_sleep_us(vci_.fence_works), awaited_.sleep_us));
        poll();
      }
      // Other threads may have armed it: then it stays armed, at the cost of one needless wake.
      if (!vci_.threaded) doorbell.fetch_and(~kDoorbellArmed, std::memory_order_relaxed);
      if (done || condition_()) return;
    }
  }

 private:
  bool has_remote() const noexcept { return vci_.has_remote.load(std::memory_order_relaxed); }
  // Begins to count with its first call.
  static bool is_over(std::uint64_t& limit, std::uint64_t ns) noexcept {
    const std::uint64_t now = now_ns();
    if (limit == 0) limit = now + ns;
    return now >= limit;
  }
  // True: a completed request may be another thread's.
  bool poll() {
    const bool any = vci_.poll_once();
    if (everywhere_ || ++num_polls_ % kPollsToOthers == 0) vci_.progress_others();
    run_background(false);
    return any && vci_.num_waiting.load(std::memory_order_relaxed) > 1;
  }
  // After every progress(), as an arrived message may let it go on.
  void run_background(bool before_sleep) {
    if (auto* work = vci_.shared.background.load(std::memory_order_acquire)) work(before_sleep);
  }
  void note_completed() {
    const Guard guard(vci_);
    num_completed_ = vci_.num_completed;
  }
  // Goes on with what needs no ring of the doorbell, for some rounds.
  bool finish_work() {
    note_completed();
    for (unsigned i = 0; i < kCopyRound && has_work(); ++i) {
      poll();
      vci_.progress_others();
      if (condition_()) return true;
      if (vci_.crowded) sched_yield();
    }
    return false;
  }
  // Returns true if the next poll finds something to do without a ring of the doorbell.
  bool has_work() {
    {
      const Guard guard(vci_);
      if (vci_.left_entries || vci_.has_copies() || vci_.num_completed != num_completed_)
        return true;
    }
    bool has = false;
    if (vci_.shared.has_others())
      vci_.shared.for_each([&](Engine::Impl& vci) {
        if (&vci == &vci_) return;
        // The thread that holds the lock need not poll.
        const bool is_free = vci.mutex.try_lock();
        has |= !is_free || vci.left_entries || vci.has_copies();
        if (is_free) vci.mutex.unlock();
      });
    return has;
  }

  Engine::Impl& vci_;
  const WaitCondition& condition_;
  const bool everywhere_;
  const Awaited& awaited_;
  unsigned num_polls_ = 0;
  std::uint64_t num_completed_ = 0;  // when the background last ran
};

}  // namespace

// One thread at a time makes progress; the others poll their own condition meanwhile.
bool Waiting::poll_once() {
  if (!threaded) {
    progress();
    return false;
  }
  if (!mutex.try_lock()) return false;
  const std::uint64_t before = num_completed;
  progress();
  const bool any = num_completed != before;
  mutex.unlock();
  return any;
}

void Waiting::progress_others() {
  if (!shared.has_others()) [[likely]]
    return;
  shared.for_each([this](Engine::Impl& vci) {
    if (&vci != this) vci.poll_once();
  });
}

void Waiting::wait(const WaitCondition& condition, bool everywhere, bool polls,
                   const Awaited& awaited) {
  const Counted counted(vci(), everywhere);
  // Here, so that a sequence of waits that end at once polls the others, too.
  progress_others_at_times();
  Wait wait(vci(), condition, everywhere, awaited);
  if (polls && !crowded && wait.spin()) return;
  if (polls && wait.yield()) return;
  wait.sleep();
}

void Engine::idle() {
  shared_->for_each([](Impl& vci) { vci.check_liveness_if_due(); });
  shared_->run_control();
  if (impl_->crowded) sched_yield();
}

}  // namespace weft::tagged
