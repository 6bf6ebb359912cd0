#include "mpi/collective/schedule.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/wait.hpp"
#include "coll/plan/loss_deadline.hpp"
#include "coll/plan/notices.hpp"

namespace weft::mpi {

void Schedule::open() noexcept {
  tag_ = kScheduleTag -
         static_cast<std::int32_t>(comm_.num_schedules.fetch_add(1, std::memory_order_relaxed) &
                                   static_cast<std::uint32_t>(kTagUb));
}

void Schedule::add_send(int peer, const void* data, std::size_t bytes) {
  ++num_added_;
  steps_.push_back({Step::Kind::send, peer, data, nullptr, bytes, nullptr});
}
void Schedule::add_receive(int peer, void* data, std::size_t bytes) {
  ++num_added_;
  steps_.push_back({Step::Kind::receive, peer, nullptr, data, bytes, nullptr});
}
void Schedule::wait() { steps_.push_back({Step::Kind::wait, 0, nullptr, nullptr, 0, nullptr}); }
void Schedule::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0 && to != from) steps_.push_back({Step::Kind::copy, 0, from, to, bytes, nullptr});
}
void Schedule::reduce(const void* in, void* inout, std::size_t count, const coll::Reduction& op) {
  steps_.push_back({Step::Kind::reduce, 0, in, inout, count, &op});
}

void Schedule::add(const coll::Plan& plan, const void* input, void* output,
                   const coll::Reduction* op) {
  using coll::Memory;
  char* scratch = allocate(plan.scratch_bytes());
  if (scratch == nullptr) return;
  const auto address = [&](coll::BufferRef ref) -> char* {
    void* base = ref.memory == Memory::scratch  ? scratch
                 : ref.memory == Memory::output ? output
                                                : const_cast<void*>(input);
    return static_cast<char*>(base) + static_cast<std::ptrdiff_t>(ref.offset);
  };
  std::vector<int> numbers;  // the messages of the plan's steps, by number
  numbers.reserve(plan.steps().size());
  for (const coll::Step& step : plan.steps()) {
    using Kind = coll::Step::Kind;
    const std::size_t before = steps_.size();
    numbers.push_back(num_added_);
    switch (step.kind) {
      case Kind::send:
        send(step.peer, address(step.from), step.length);
        break;
      case Kind::receive:
        receive(step.peer, address(step.to), step.length);
        break;
      case Kind::copy:
        copy(address(step.to), address(step.from), step.length);
        break;
      case Kind::reduce:
        reduce(address(step.from), address(step.to), step.length, *op);
        break;
      case Kind::wait_all:
        wait();
    }
    if (steps_.size() == before) continue;
    for (std::size_t i = 0; i < 2; ++i)
      if (step.after[i] >= 0)
        steps_[before].after[i] = numbers[static_cast<std::size_t>(step.after[i])];
  }
  wait();
}

char* Schedule::allocate(std::size_t bytes) {
  memory_.emplace_back();
  memory_.back().reset(new (std::nothrow) char[bytes + 1]);
  if (memory_.back() == nullptr) out_of_memory_ = true;
  return memory_.back().get();
}

void Schedule::clear() {
  steps_.clear();
  num_added_ = 0;
  messages_.reset();
  num_messages_ = 0;
  memory_.clear();
  next_ = 0;
  first_pending_ = 0;
  code_ = Code::ok;
  out_of_memory_ = false;
  lost_seen_ = 0;
  some_lost_ = some_died_ = false;
  broken_since_ns_ = given_up_ns_ = 0;
}

Code Schedule::start() {
  if (out_of_memory_) return Code::no_memory;
  messages_.reset(new (std::nothrow) tagged::Request[static_cast<std::size_t>(num_added_)]);
  return messages_ != nullptr ? Code::ok : Code::no_memory;
}

bool Schedule::is_over(std::size_t message) {
  if (!messages_[message].is_complete()) return false;
  if (messages_[message].code != Code::ok && code_ == Code::ok) code_ = messages_[message].code;
  return true;
}

bool Schedule::advance(Code& code) {
  return (run(code) || (is_hopeless() && give_up(code))) && report_end(code);
}

bool Schedule::is_given_up(Code& code) {
  return is_hopeless() && give_up(code) && report_end(code);
}

// Reports the end: the other members must learn of a loss. True once that is sent.
bool Schedule::report_end(Code code) {
  const bool notifies =
      code == Code::peer_lost && !comm_.is_revoked.load(std::memory_order_relaxed);
  coll::Notices* notices = notifies ? comm_.notices() : nullptr;
  if (notices == nullptr) return true;
  notices->notify();
  return notices->is_sent();
}

// As blocking calls (coll/plan/loss_deadline.hpp): somebody may wait for a member that has given
// up, but what is on its way from others still comes.
bool Schedule::is_hopeless() noexcept {
  if (comm_.is_revoked.load(std::memory_order_relaxed)) return true;
  if (const std::uint32_t lost = engine->num_lost(); lost != lost_seen_) {
    lost_seen_ = lost;
    for (const Group* group : {comm_.group.get(), comm_.remote.get()}) {
      if (group == nullptr) continue;
      for (const int member : group->members()) {
        if (member == engine->rank() || engine->is_alive(member)) continue;
        some_lost_ = true;
        some_died_ = some_died_ || !engine->has_left(member);
      }
    }
  }
  coll::Notices* notices = comm_.notices();
  const bool is_notified = notices != nullptr && notices->is_over();
  if (!some_lost_ && !is_notified) return false;
  const std::uint64_t now = now_ns();
  if (broken_since_ns_ == 0) broken_since_ns_ = now;
  return now >= broken_since_ns_ +
                    (some_died_ || is_notified ? coll::kGraceNs : coll::kGraceAfterLeavingNs);
}

namespace {

// The messages of a schedule that has ended without them, and the memory they use.
struct KeptMessages final : tagged::Kept {
  bool is_over() const noexcept override {
    for (std::size_t i = 0; i < num_messages; ++i)
      if (!messages[i].is_over()) return false;
    return true;
  }
  std::unique_ptr<tagged::Request[]> messages;
  std::size_t num_messages = 0;
  std::vector<std::unique_ptr<char[]>> memory;
};

}  // namespace

bool Schedule::give_up(Code& code) {
  constexpr std::uint64_t kMostNs = 10'000'000'000;
  const std::uint64_t now = now_ns();
  bool all_over = true;
  for (std::size_t i = 0; i < num_messages_; ++i) {
    // Cancelled once: a send is cancelled by a message.
    if (given_up_ns_ == 0 && !messages_[i].is_complete()) (void)engine->cancel(messages_[i]);
    all_over = all_over && messages_[i].is_complete();
  }
  if (given_up_ns_ == 0) given_up_ns_ = now;
  code_ = Code::peer_lost;
  if (!all_over) {
    if (now < given_up_ns_ + kMostNs) return false;
    if (auto* kept = new (std::nothrow) KeptMessages) {
      kept->messages = std::move(messages_);
      kept->memory = std::move(memory_);
      kept->num_messages = num_messages_;
      engine->keep(std::unique_ptr<tagged::Kept>(kept));
    } else {  // never freed
      (void)messages_.release();
      for (auto& memory : memory_) (void)memory.release();
    }
    num_messages_ = first_pending_ = 0;
    abandoned_ = true;
  }
  code = code_;
  return true;
}

bool Schedule::run(Code& code) {
  for (;; ++next_) {
    if (next_ < steps_.size() && code_ == Code::ok)
      for (const int after : steps_[next_].after)
        if (after >= 0 && !is_over(static_cast<std::size_t>(after))) return false;
    // After an error nothing new is started, but the messages that were started must complete.
    const bool at_end = next_ == steps_.size() || code_ != Code::ok;
    if (at_end || steps_[next_].kind == Step::Kind::wait) {
      for (; first_pending_ < num_messages_; ++first_pending_)
        if (!is_over(first_pending_)) return false;
      if (at_end || code_ != Code::ok) {
        code = code_;
        return true;
      }
      continue;
    }
    const Step& step = steps_[next_];
    switch (step.kind) {
      case Step::Kind::send:
        if (engine->try_send(step.peer, comm_.context, tag_, step.from, step.size))
          messages_[num_messages_].complete.store(true, std::memory_order_relaxed);
        else
          engine->isend(messages_[num_messages_], step.peer, comm_.context, tag_, step.from,
                        step.size);
        ++num_messages_;
        break;
      case Step::Kind::receive:
        engine->irecv(messages_[num_messages_++], step.peer, comm_.context, tag_, step.to,
                      step.size);
        break;
      case Step::Kind::copy:
        std::memmove(step.to, step.from, step.size);
        break;
      case Step::Kind::reduce:
        step.op->apply(step.from, step.to, step.size, step.op->argument);
        break;
      case Step::Kind::wait:
        break;
    }
  }
}

// Dissemination (Hensgen, Finkel, Manber 1988): after round k every process knows of 2^k processes.
void schedule_barrier(Schedule& schedule) {
  const int size = schedule.size();
  const int rank = schedule.rank();
  for (int distance = 1; distance < size; distance *= 2) {
    schedule.receive((rank - distance + size) % size, nullptr, 0);
    schedule.send((rank + distance) % size, nullptr, 0);
    schedule.wait();
  }
}

// Binomial tree on ranks relative to the root: the parent clears the lowest set bit.
void schedule_bcast(Schedule& schedule, void* data, std::size_t bytes, int root) {
  const int size = schedule.size();
  const int relative = (schedule.rank() - root + size) % size;
  int bit = 1;
  while (bit < size && (relative & bit) == 0) bit *= 2;
  if (relative != 0) {
    schedule.receive((relative - bit + root) % size, data, bytes);
    schedule.wait();
  }
  for (bit /= 2; bit > 0; bit /= 2)
    if (relative + bit < size) schedule.send((relative + bit + root) % size, data, bytes);
  schedule.wait();
}

// A binomial tree towards rank 0 in which each process always holds the result of a range of ranks
// that begins with its own: the order of operands is that of the ranks, so operations need not be
// commutative. If the root is another rank it gets the result at the end.
char* schedule_reduce(Schedule& schedule, char* mine, std::size_t count, const coll::Reduction& op,
                      int root) {
  const std::size_t bytes = count * op.element_bytes;
  const int size = schedule.size();
  const int rank = schedule.rank();
  char* theirs = nullptr;
  for (int bit = 1; bit < size; bit *= 2) {
    if ((rank & bit) != 0) {
      schedule.send(rank - bit, mine, bytes);
      schedule.wait();
      break;
    }
    if (rank + bit >= size) continue;
    if (theirs == nullptr) theirs = schedule.allocate(bytes);
    schedule.receive(rank + bit, theirs, bytes);
    schedule.wait();
    schedule.reduce(mine, theirs, count, op);
    std::swap(mine, theirs);
  }
  if (root == 0) return rank == 0 ? mine : nullptr;
  if (rank == 0) {
    schedule.send(root, mine, bytes);
    schedule.wait();
  }
  if (rank != root) return nullptr;
  if (theirs == nullptr) theirs = schedule.allocate(bytes);
  schedule.receive(0, theirs, bytes);
  schedule.wait();
  return theirs;
}

}  // namespace weft::mpi
