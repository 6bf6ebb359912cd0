// The path of a call: a request in the ring, the doorbell if the store sleeps, a completion.
#include <linux/futex.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "impl.hpp"
#include "objstore/shared/clock.hpp"

namespace weft {

using namespace objstore;

namespace {

constexpr std::uint64_t kSpinNs = 20'000, kYieldNs = 100'000;
constexpr std::uint64_t kSliceNs = 50'000'000;  // between two checks that the store lives
// The store may take so long beyond the timeout of the call itself.
constexpr std::uint64_t kAnswerNs = 30'000'000'000;
// The store may take so long to give up a call that the program no longer waits for.
constexpr std::uint64_t kCancelNs = 2'000'000'000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Status ObjectStoreImpl::error_of(Op op, const ObjectId& id, std::uint32_t code,
                                 Reason reason) const {
  if (code == 0) return Code::ok;
  const char* what = nullptr;
  switch (reason) {
    case Reason::exists:
      what = "is there already, or is being created; ids name one object";
      break;
    case Reason::exists_elsewhere:
      what = "is on another host, whose bytes are the object's; ids name one object";
      break;
    case Reason::too_large:
      what = "is larger than the store's memory; start weft-store with more --memory";
      break;
    case Reason::no_room:
      what = "finds no room: all objects are referenced, pinned or being created";
      break;
    case Reason::quota:
      what =
          "would take more than this client's quota; erase some, or start weft-store with "
          "more --quota";
      break;
    case Reason::not_creating:
      what = "is not being created by this client";
      break;
    case Reason::bad_request:
      what = "was asked for with lengths or places that make no sense";
      break;
    case Reason::deleted:
      what = "was deleted";
      break;
    case Reason::no_extent:
      what = "finds no place to be written; seal or abort others before";
      break;
    case Reason::shutting_down:
      what = "can't be had: the store ends";
      break;
    case Reason::no_holder:
      what = "is on no host";
      break;
    case Reason::transfer:
      what = "could not be fetched from any host that has it";
      break;
    case Reason::few_copies:
      what = "is on fewer hosts than were asked for";
      break;
    case Reason::wrong_checksum:
      what = "came from other hosts with bytes that their checksum is not of";
      break;
    case Reason::unreadable:
      what = "was spilled to disk and could not be read back; weft-store's log has the reason";
      break;
    case Reason::no_hosts:
      what = "can be pushed nowhere: no other host's store is known here";
      break;
    case Reason::not_listening:
      what = "can't be pushed: a store without --listen is in no group";
      break;
    case Reason::few_hosts:
      what = "is not on all of the hosts";
      break;
    case Reason::short_of_memory:
      what = "was refused: weft-store has no memory for the call";
      break;
    case Reason::bad_id:
      return {Code::bad_argument, "an object's id is 1 to 255 bytes, and here is one of none"};
    case Reason::no_room_here:
      what =
          "is on another host, and finds no room here in time: all objects are referenced, "
          "pinned or being created";
      break;
    case Reason::interrupted:
      what = "was waited for no longer: the program was interrupted";
      break;
    case Reason::many_hosts:
      what = "was pushed nowhere, as there are too many hosts";
      break;
    case Reason::none:
      break;
  }
  const auto known = static_cast<Code>(code);
  if (what == nullptr) {
    if (known == Code::timed_out)
      what = "did not come in time";
    else if (known == Code::not_found)
      what = "is not in the store";
    else
      what = op == Op::erase ? "could not be deleted" : "failed";
  }
  return {known, (id.size != 0 ? "object " + id.text() : "what was asked for") + " " + what};
}

bool ObjectStoreImpl::store_is_gone() {
  char byte;
  const ssize_t got = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

// False: as many calls as possible are under way.
bool ObjectStoreImpl::submit_locked(Request& request, ObjectCall* call) {
  if (num_under_way_ == kCalls) return false;
  const auto free = std::find_if(pending_.begin(), pending_.end(),
                                 [](const Pending& pending) { return !pending.is_used; });
  ++num_under_way_;
  *free = Pending{};
  free->is_used = true;
  free->call = call;
  request.tag = static_cast<std::uint32_t>(free - pending_.begin());
  Control& control = this->control();
  copy_request(control.requests[submitted_ % kCalls], request);
  // release: the request; pairs with Server::serve.
  control.submitted.store(++submitted_, std::memory_order_release);
  // seq_cst: either the store sees the request before it sleeps, or this thread sees that it
  // sleeps; pairs with the fence in Server::fall_asleep.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (control.store_polls.load(std::memory_order_relaxed) == 0) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(doorbell_.get(), &one, sizeof one);
  }
  return true;
}

bool ObjectStoreImpl::take_completions_locked() {
  Control& control = this->control();
  // acquire: the completions, and what the store wrote before them; pairs with Server::complete.
  const std::uint32_t completed = control.completed.load(std::memory_order_acquire);
  if (completed == completed_) return false;
  while (completed_ != completed) {
    const Completion& completion = control.completions[completed_ % kCalls];
    Pending& pending = pending_[completion.tag % kCalls];
    ++completed_;
    if (pending.call != nullptr) {
      ObjectCall& call = *pending.call;
      if (call.extent_bytes_ != 0)
        extents_[call.extent_].space.free(call.extent_offset_, call.extent_bytes_);
      call.status_ = error_of(Op::put, call.id_, completion.code, completion.reason);
      // release: the status; pairs with is_done().
      call.is_done_.store(true, std::memory_order_release);
    }
    pending.completion = completion;
    pending.is_done = true;
    if (pending.call != nullptr || pending.is_left) {
      pending.is_used = false;
      --num_under_way_;
    }
  }
  return true;
}

Status ObjectStoreImpl::has_ended() const {
  return {Code::peer_lost, "the object store at " + socket_path_ + " has ended"};
}

Status ObjectStoreImpl::check_process() const {
  if (!fork_mark_.is_child()) return Code::ok;
  return {Code::bad_argument, "the connection to the object store at " + socket_path_ +
                                  " is of the process that this one was forked from: connect anew "
                                  "after fork"};
}

Status ObjectStoreImpl::not_answered(Slept slept) const {
  if (slept == Slept::lost) return has_ended();
  if (slept == Slept::interrupted)
    return {Code::cancelled, "a call to the object store at " + socket_path_ + " was interrupted"};
  return {Code::timed_out,
          "the object store at " + socket_path_ + " does not answer; is it stopped?"};
}

// Returns when done() (called with mutex_ held) is true, or with the reason why it is not.
template <class Done>
ObjectStoreImpl::Slept ObjectStoreImpl::sleep_until(Done&& done, std::uint64_t deadline_ns,
                                                    bool for_events, bool may_be_interrupted) {
  Control& control = this->control();
  const std::uint64_t begin_ns = monotonic_ns();
  for (std::uint64_t now_ns = begin_ns;; now_ns = monotonic_ns()) {
    std::uint32_t completed;
    std::uint64_t events;
    {
      const std::lock_guard lock(mutex_);
      take_completions_locked();
      if (done()) return Slept::done;
      if (is_lost_) return Slept::lost;
      if (now_ns >= deadline_ns) return Slept::late;
      completed = completed_;
      events = events_read_;
    }
    const auto is_news = [&] {
      return control.completed.load(std::memory_order_relaxed) != completed ||
             (for_events && control.events_written.load(std::memory_order_relaxed) != events);
    };
    if (now_ns - begin_ns < kYieldNs) {
      for (int i = 0; i < 64 && !is_news(); ++i) relax();
      if (now_ns - begin_ns > kSpinNs && !is_news()) ::sched_yield();
      continue;
    }
    const std::uint32_t wakes = control.wakes.load(std::memory_order_relaxed);
    control.sleepers.fetch_add(1, std::memory_order_relaxed);
    // seq_cst: either the store sees the sleeper, or this thread sees the store's news; pairs with
    // the fence in Server::ring.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    bool is_gone = false, has_slept = false;
    if (!is_news()) {
      const std::uint64_t slice = std::min(kSliceNs, deadline_ns - now_ns);
      const timespec limit{0, static_cast<long>(slice)};
      ::syscall(SYS_futex, &control.wakes, FUTEX_WAIT, wakes, &limit, nullptr, 0);
      has_slept = true;
      is_gone = !is_news() && store_is_gone();
    }
    control.sleepers.fetch_sub(1, std::memory_order_relaxed);
    if (is_gone) {
      const std::lock_guard lock(mutex_);
      is_lost_ = true;
    }
    if (!has_slept || !may_be_interrupted || is_news()) continue;
    // acquire: pairs with set_interrupt.
    const auto is_interrupted = is_interrupted_.load(std::memory_order_acquire);
    if (is_interrupted == nullptr || is_interrupted() == 0) continue;
    // relaxed: of interest to the thread that was interrupted.
    std::atomic_ref(num_interrupts_).fetch_add(1, std::memory_order_relaxed);
    return Slept::interrupted;
  }
}

Status ObjectStoreImpl::start(Request& request, std::uint32_t& tag, ObjectCall* call,
                              std::uint64_t deadline_ns) {
  if (Status status = check_process(); !status) return status;
  {
    const std::lock_guard lock(mutex_);
    if (is_lost_) return has_ended();
    if (submit_locked(request, call)) {
      tag = request.tag;
      return Code::ok;
    }
  }
  const Slept slept = sleep_until([&] { return submit_locked(request, call); }, deadline_ns);
  if (slept != Slept::done) return not_answered(slept);
  tag = request.tag;
  return Code::ok;
}

Status ObjectStoreImpl::finish(std::uint32_t tag, std::uint64_t deadline_ns,
                               Completion& completion) {
  const auto take = [&] {
    Pending& pending = pending_[tag];
    if (!pending.is_done) return false;
    completion = pending.completion;
    pending.is_used = false;
    --num_under_way_;
    return true;
  };
  Slept slept = sleep_until(take, deadline_ns);
  if (slept == Slept::interrupted) {
    // The store answers calls that it gives up as well as completed ones. A stopped store does
    // neither.
    const std::uint64_t until_ns = monotonic_ns() + kCancelNs;
    Request cancel{};
    cancel.op = Op::cancel;
    cancel.count = tag;
    const auto submit = [&] {
      if (!submit_locked(cancel, nullptr)) return false;
      pending_[cancel.tag].is_left = true;
      return true;
    };
    slept = sleep_until(submit, until_ns, false, false);
    if (slept == Slept::done) slept = sleep_until(take, until_ns, false, false);
    if (slept == Slept::late) slept = Slept::interrupted;
  }
  if (slept == Slept::done) return Code::ok;
  const std::lock_guard lock(mutex_);
  pending_[tag].is_left = true;
  return not_answered(slept);
}

Status ObjectStoreImpl::call(Request& request, Completion& completion) {
  completion.tag = kUnanswered;
  std::uint64_t deadline_ns = deadline_after(request.timeout_ms);
  if (deadline_ns != UINT64_MAX) deadline_ns += kAnswerNs;
  std::uint32_t tag;
  if (Status status = start(request, tag, nullptr, deadline_ns); !status) {
    completion.tag = 0;  // never asked
    return status;
  }
  if (Status status = finish(tag, deadline_ns, completion); !status) return status;
  if (completion.reason == Reason::few_copies)
    return {static_cast<Code>(completion.code),
            "object " + request.id.text() + " is on " + std::to_string(completion.count) +
                " of the " + std::to_string(request.copies) +
                " hosts that were asked for, and stays there; are others up, and have they room?"};
  return error_of(request.op, request.id, completion.code, completion.reason);
}

bool ObjectStoreImpl::arm() {
  if (!check_process()) return false;
  Control& control = this->control();
  control.armed.store(1, std::memory_order_relaxed);
  // seq_cst: as in sleep_until.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::lock_guard lock(mutex_);
  if (control.completed.load(std::memory_order_relaxed) == completed_ &&
      control.events_written.load(std::memory_order_relaxed) == events_read_)
    return true;
  control.armed.store(0, std::memory_order_relaxed);
  return false;
}

bool ObjectStoreImpl::progress() {
  if (!check_process()) return false;
  Control& control = this->control();
  if (control.armed.exchange(0, std::memory_order_relaxed) != 0) {
    std::uint64_t count;
    [[maybe_unused]] const ssize_t got = ::read(bell_.get(), &count, sizeof count);
  }
  const std::lock_guard lock(mutex_);
  return take_completions_locked();
}

Status ObjectStoreImpl::wait(ObjectCall& call) {
  if (Status status = check_process(); !status) return status;
  const Slept slept = sleep_until([&] { return call.is_done(); }, UINT64_MAX);
  return slept == Slept::done ? call.status_ : not_answered(slept);
}

bool ObjectStoreImpl::next_event(ObjectEntry& entry, std::int64_t timeout_ms,
                                 std::uint64_t* num_lost) {
  if (!check_process()) return false;
  Control& control = this->control();
  const auto take = [&] {
    // acquire: the event; pairs with Server::notify_subscribers.
    if (control.events_written.load(std::memory_order_acquire) == events_read_) return false;
    const Event& event = control.events[events_read_ % kEvents];
    entry = {};
    entry.id = event.id;
    entry.data_bytes = event.data_bytes;
    entry.metadata_bytes = event.metadata_bytes;
    // release: the event has been copied; pairs with Server::notify_subscribers.
    control.events_read.store(++events_read_, std::memory_order_release);
    return true;
  };
  const bool has_one = sleep_until(take, deadline_after(timeout_ms), true) == Slept::done;
  if (num_lost != nullptr) *num_lost = control.events_lost.load(std::memory_order_relaxed);
  return has_one;
}

}  // namespace weft
