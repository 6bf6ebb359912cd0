// The words of windows: locks of members, and the lock for accumulates. Mapped words are changed by
// the processor's atomics, others by the fabric's; the contract of fabrics makes these atomic
// against the processor's.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/wait.hpp"
#include "mpi/core/request.hpp"
#include "mpi/window/window.hpp"

namespace weft::mpi {
namespace {

// The number of calls of check_member between two scans for lost processes, which cost a system
// call a peer at most every 20 ms.
constexpr unsigned kCallsPerScan = 256;
// The number of calls of check_target between two polls, which may yield the core.
constexpr unsigned kCallsPerPoll = 16 * kCallsPerScan;
// Waiting for a word: a mapped word is first polled without a pause, then with the core given to
// others in between, and then with pauses that grow, so that the holder of the word can go on.
constexpr unsigned kSpins = 200;
constexpr unsigned kYields = 32;
constexpr std::chrono::microseconds kFirstPause{20}, kLongestPause{1000};

class Pause {
 public:
  void wait() {
    if (++num_ <= kYields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(length_);
      length_ = std::min(2 * length_, kLongestPause);
    }
  }

 private:
  unsigned num_ = 0;
  std::chrono::microseconds length_ = kFirstPause;
};

// Repeats a call on the fabric that had no memory for a moment: a ticket that is not given back
// stops all later ones. Tries for Settings::patience_ns().
template <class Call>
Code retry_while_no_memory(Call&& call) {
  Code code = call();
  if (code != Code::no_memory) [[likely]]
    return code;
  const std::uint64_t limit = now_ns() + process->job->settings().patience_ns();
  for (Pause pause; code == Code::no_memory && now_ns() < limit; pause.wait()) {
    progress_once();
    code = call();
  }
  return code;
}

// One word of a member's WindowControl.
class Word {
 public:
  Word(const Window& window, int member, std::uint64_t WindowControl::*word)
      : window_(window), member_(member) {
    if (WindowControl* control = window.control(member)) {
      mapped_ = &(control->*word);
    } else {
      constexpr WindowControl kNone{};
      offset_ = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&(kNone.*word)) -
                                         reinterpret_cast<const std::byte*>(&kNone));
    }
  }

  std::uint64_t* mapped() const noexcept { return mapped_; }

  // Adds; `previous` is the old value. acq_rel, as for all that a lock protects.
  Code add(std::uint64_t value, std::uint64_t& previous) const noexcept {
    if (mapped_ != nullptr) {
      previous = std::atomic_ref(*mapped_).fetch_add(value, std::memory_order_acq_rel);
      return Code::ok;
    }
    return retry_while_no_memory(
        [&] { return lanes().fetch_add(peer(), memory(), offset_, value, previous); });
  }
  Code replace(std::uint64_t compare, std::uint64_t value, bool& done) const noexcept {
    std::uint64_t previous = compare;
    Code code = Code::ok;
    if (mapped_ != nullptr)
      std::atomic_ref(*mapped_).compare_exchange_strong(previous, value, std::memory_order_acq_rel);
    else
      code = retry_while_no_memory(
          [&] { return lanes().cas(peer(), memory(), offset_, compare, value, previous); });
    done = code == Code::ok && previous == compare;
    return code;
  }
  Code read(std::uint64_t& value) const noexcept {
    if (mapped_ != nullptr) {
      value = std::atomic_ref(*mapped_).load(std::memory_order_acquire);
      return Code::ok;
    }
    return retry_while_no_memory(
        [&] { return lanes().get(peer(), memory(), offset_, &value, sizeof value); });
  }

  // Blocks until the word has that value.
  Code wait_for(Window& window, std::uint64_t value) const {
    // Members on other hosts cannot wake a thread that sleeps here.
    if (mapped_ != nullptr && window.host_indices.empty()) {
      Code lost = Code::ok;
      const auto is_there = [this, &window, &lost, value] {
        if (std::atomic_ref(*mapped_).load(std::memory_order_acquire) == value) return true;
        lost = check_wait(window);
        return lost != Code::ok;
      };
      engine->wait_until(is_there);
      return lost;
    }
    for (Pause pause;; pause.wait()) {
      std::uint64_t now = 0;
      if (const Code code = read(now); code != Code::ok) return code;
      if (now == value) return Code::ok;
      if (const Code code = check_wait(window); code != Code::ok) return code;
      progress_once();
    }
  }

 private:
  Lanes& lanes() const noexcept { return window_.lanes_to(member_); }
  int peer() const noexcept { return window_.world(member_); }
  const MemoryName& memory() const noexcept { return window_.remote(member_).control; }

  const Window& window_;
  const int member_;
  std::uint64_t* mapped_ = nullptr;
  std::size_t offset_ = 0;
};

// Wakes the waiters of this host for a turn of this member's lock. They sleep at their doorbells;
// as it is not known which members wait, all doorbells are rung.
void wake_waiters(Window& window, int member, std::uint64_t turn) {
  const WindowControl* control = window.control(member);
  if (control == nullptr) return;
  auto& next = const_cast<std::uint64_t&>(control->next_ticket);
  if (std::atomic_ref(next).load(std::memory_order_acquire) == turn) return;
  for (const int other : window.host_members)
    if (other != window.rank()) engine->ring(window.world(other));
  if (multi_threaded()) engine->ring(engine->rank());
}

[[gnu::cold, gnu::noinline]] void scan(bool polls) {
  engine->check_for_lost();
  if (polls) progress_once();
}

inline Code check(Window& window, int member, bool polls) {
  // Not atomic as a whole: threads may lose a count.
  const unsigned number = window.num_checks.load(std::memory_order_relaxed) + 1;
  window.num_checks.store(number, std::memory_order_relaxed);
  if (number % kCallsPerScan == 0) [[unlikely]]
    scan(polls && number % kCallsPerPoll == 0);
  if (engine->num_lost() == 0) return Code::ok;
  if (member >= 0) return engine->is_alive(window.world(member)) ? Code::ok : Code::peer_lost;
  // Without a list of the lost: this is called in the midst of waits, where no memory may be
  // allocated.
  for (int any = 0; any < window.size(); ++any)
    if (!engine->is_alive(window.world(any))) return Code::peer_lost;
  return Code::ok;
}

}  // namespace

Code check_member(Window& window, int member) { return check(window, member, false); }

Code check_target(Window& window, int target) { return check(window, target, true); }

Code check_wait(Window& window) {
  return is_revoked(*window.comm) ? Code::peer_lost : check_member(window, -1);
}

Code lock_member(Window& window, int member, bool exclusive) {
  std::uint64_t ticket = 0;
  if (const Code code = Word(window, member, &WindowControl::next_ticket).add(1, ticket);
      code != Code::ok)
    return code;
  const Word turn(window, member,
                  exclusive ? &WindowControl::exclusive_turn : &WindowControl::shared_turn);
  if (const Code code = turn.wait_for(window, ticket); code != Code::ok) return code;
  if (exclusive) return Code::ok;
  const Code code = turn.add(1, ticket);  // the next holder may enter too, if it is a shared one
  wake_waiters(window, member, ticket + 1);
  return code;
}

Code unlock_member(Window& window, int member, bool exclusive) {
  std::uint64_t ticket = 0;
  if (exclusive)
    if (const Code code = Word(window, member, &WindowControl::shared_turn).add(1, ticket);
        code != Code::ok)
      return code;
  const Code code = Word(window, member, &WindowControl::exclusive_turn).add(1, ticket);
  wake_waiters(window, member, ticket + 1);
  return code;
}

AccumulateLock::AccumulateLock(Window& window, int member)
    : window_(window), member_(member), code_(Code::ok) {
  const Word word(window, member, &WindowControl::accumulating);
  const auto own = static_cast<std::uint64_t>(engine->rank()) + 1;
  unsigned spins = word.mapped() != nullptr ? kSpins : 0;
  for (Pause pause;;) {
    bool is_had = false;
    code_ = word.replace(0, own, is_had);
    if (code_ != Code::ok || is_had) return;
    if (spins != 0) {
      --spins;
      cpu_relax();
      continue;
    }
    pause.wait();
    progress_once();
    code_ = check_wait(window);
    if (code_ != Code::ok) return;
  }
}

Code AccumulateLock::wait_for_atomics() {
  // Pairs with AtomicChange: either it sees the lock, or this sees its count.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const int other : window_.host_members) {
    const std::atomic_ref changing(window_.control(other)->changing);
    unsigned spins = kSpins;
    for (Pause pause; changing.load(std::memory_order_acquire) != 0;) {
      if (spins != 0) {
        --spins;
        cpu_relax();
        continue;
      }
      pause.wait();
      if (const Code code = check_wait(window_); code != Code::ok) return code;
    }
  }
  return Code::ok;
}

AtomicChange::AtomicChange(Window& window, int member) noexcept
    : changing_(window.control(window.rank())->changing) {
  if (multi_threaded())
    changing_.fetch_add(1, std::memory_order_seq_cst);
  else
    changing_.exchange(1, std::memory_order_seq_cst);
  const std::atomic_ref held(window.control(member)->accumulating);
  is_allowed_ = held.load(std::memory_order_seq_cst) == 0;
}

AtomicChange::~AtomicChange() {
  if (multi_threaded())
    changing_.fetch_sub(1, std::memory_order_release);
  else
    changing_.store(0, std::memory_order_release);
}

Code AccumulateLock::release() {
  if (member_ < 0 || code_ != Code::ok) return code_;
  bool done = false;
  code_ = Word(window_, member_, &WindowControl::accumulating)
              .replace(static_cast<std::uint64_t>(engine->rank()) + 1, 0, done);
  member_ = -1;
  return code_;
}

AccumulateLock::~AccumulateLock() { static_cast<void>(release()); }

}  // namespace weft::mpi
