// The end of a phase. Every rank counts the blocks that it has sent to each other rank since the
// exchange was opened. One allreduce adds these vectors up: each rank gets the number of blocks it
// must have received, and the sum of all blocks received. If no block is in flight, the phase is
// over after this one allreduce. Otherwise the ranks receive until the count is complete, and
// confirm that with a second allreduce.
//
// When a rank is lost, each of these allreduces ends in the same way on all live ranks
// (agreement.cpp), and they count again without the blocks to and from the lost one, until all that
// they have sent to each other is received. Then the phase is over, too, with the names of the lost
// ranks as its result.
//
// Blocks sent after the end of a phase carry the next phase's number, and a receiver that has not
// reached the end yet leaves them in the ring. So a rank may go on receiving while it waits for the
// others, which may depend on that, and still counts the blocks of this phase only.
#include <fmt/core.h>

#include <algorithm>

#include "base/shortage.hpp"
#include "base/trace.hpp"
#include "exchange/exchange_impl.hpp"

namespace weft::transport {
namespace {

// Drains messages while it waits; then polls, yields and sleeps.
template <class Done>
void receive_until(ExchangeBase::Impl& impl, int thread, const Background& drain, Done&& done) {
  Waiter waiter(impl, thread);
  while (!done()) {
    drain.work(drain.argument);
    if (done()) return;
    waiter.pause();
  }
}

void add(const void* in, void* inout, std::size_t count, void*) {
  const auto* from = static_cast<const std::uint64_t*>(in);
  auto* to = static_cast<std::uint64_t*>(inout);
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

// Added by a rank that has no memory for messages, to the number of ranks with closed lanes.
constexpr std::uint64_t kShortage = std::uint64_t{1} << 32;

Status trouble_status(std::uint64_t trouble) {
  if (trouble == 0) return {};
  if (trouble % kShortage != 0) return Code::corrupt;
  return {Code::no_memory, "no memory to receive messages that have arrived"};
}

const coll::Reduction kAdd{add, nullptr, sizeof(std::uint64_t), true};

}  // namespace

std::uint64_t ExchangeBase::Impl::received_here() const noexcept {
  std::uint64_t sum = 0;
  // acquire: pairs with the release in finish_block().
  for (const auto& thread : threads) sum += thread->received.load(std::memory_order_acquire);
  // acquire: pairs with the release in leave_out_lost().
  if (num_out.load(std::memory_order_acquire) == 0) [[likely]]
    return sum;
  // A block is counted here before it is counted above, so the difference is never negative.
  for (std::size_t rank = 0; rank < is_out.size(); ++rank) {
    if (!is_out[rank].load(std::memory_order_relaxed)) continue;
    for (const auto& thread : threads)
      sum -= thread->received_from[rank].load(std::memory_order_relaxed);
  }
  return sum;
}

// Applies the losses that are agreed on.
void ExchangeBase::Impl::leave_out_lost() {
  for (std::size_t rank = 0; rank < is_out.size(); ++rank) {
    if (job.agreement->has(static_cast<int>(rank)) || is_out[rank].load(std::memory_order_relaxed))
      continue;
    is_out[rank].store(true, std::memory_order_relaxed);
    num_out.fetch_add(1, std::memory_order_release);
    some_left_out = true;
  }
}

bool ExchangeBase::Impl::has_unsent() const noexcept {
  return std::ranges::any_of(threads, [](const auto& thread) {
    return thread->has_unsent.load(std::memory_order_relaxed);
  });
}

// Nothing more is received from lost ranks, even if they are alive.
void ExchangeBase::Impl::drop_lanes_of_lost(Thread& thread) noexcept {
  for (auto& in : thread.ins) {
    if (!is_out[static_cast<std::size_t>(in->peer)].load(std::memory_order_relaxed)) continue;
    in->broken = true;
    end_shortage(in->shortage);
  }
}

// Runs in one thread of the rank while no other thread sends.
Status ExchangeBase::Impl::agree_on_counts(bool& all) {
  leave_out_lost();
  const auto size = static_cast<std::size_t>(job.members->size());
  // Blocks sent to each rank; blocks received here; ranks in trouble.
  counts.assign(size + 2, 0);
  for (const auto& thread : threads)
    for (std::size_t rank = 0; rank < size; ++rank)
      counts[rank] += thread->sent[rank].load(std::memory_order_relaxed);
  if (num_out.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    for (std::size_t rank = 0; rank < size; ++rank)
      if (is_out[rank].load(std::memory_order_relaxed)) counts[rank] = 0;
  }
  counts[size] = received_here();
  counts[size + 1] = corrupt.load(std::memory_order_acquire) ? 1 : has_unsent() ? kShortage : 0;
  Status status = job.all_reduce(counts.data(), counts.size(), kAdd);
  if (!status) return status;
  std::uint64_t sent = 0;
  for (std::size_t rank = 0; rank < size; ++rank) sent += counts[rank];
  expected.store(counts[static_cast<std::size_t>(job.members->rank())], std::memory_order_relaxed);
  all = sent == counts[size];
  return trouble_status(counts[size + 1]);
}

// Agrees that all ranks have received their blocks.
Status ExchangeBase::Impl::agree_on_end() {
  std::uint64_t trouble = corrupt.load(std::memory_order_acquire) ? 1 : is_short() ? kShortage : 0;
  Status status = job.all_reduce(&trouble, 1, kAdd);
  return status ? trouble_status(trouble) : status;
}

// Returns the same text on all ranks: which rank has closed a lane of which.
Status ExchangeBase::Impl::name_corrupt() {
  const int mine = corrupt.load(std::memory_order_acquire)
                       ? corrupt_peer.load(std::memory_order_relaxed) + 2
                       : 0;
  std::vector<int> all(static_cast<std::size_t>(job.members->size()));
  Status status = job.all_gather(&mine, all.data(), sizeof mine);
  std::string text;
  for (int rank = 0; status && rank < job.members->size(); ++rank) {
    const int peer = all[static_cast<std::size_t>(rank)] - 2;
    if (peer < -1) continue;
    text += (text.empty() ? "" : ", ") + job.members->describe(rank) + " closed a lane";
    if (job.has_rank(peer)) text += " of " + job.members->describe(peer);
  }
  return {Code::corrupt, text.empty() ? "a lane between two ranks was closed" : text};
}

// Ends the phase with the other ranks, in thread 0, after the first agreement on counts.
// others_drain: the other threads receive until the counts are complete, and ring; otherwise they
// ring for each block.
Status ExchangeBase::Impl::end_phase(const Background& drain, Status status, bool all,
                                     bool others_drain) {
  std::vector<int> lost;
  for (;;) {
    if (status && !all) {
      others_receive.store(!others_drain, std::memory_order_relaxed);
      // Messages without memory are tried once more in any case.
      if (is_short()) drain.work(drain.argument);
      receive_until(*this, 0, drain, [&] {
        return is_complete() || corrupt.load(std::memory_order_acquire) || is_short() ||
               job.agreement->is_broken();
      });
      others_receive.store(false, std::memory_order_relaxed);
      status = agree_on_end();
    }
    if (!(status == Code::peer_lost)) break;
    // The live ranks end the phase nevertheless. The other threads do not know the new counts.
    others_drain = false;
    lost.insert(lost.end(), job.agreement->lost().begin(), job.agreement->lost().end());
    status = agree_on_counts(all);
  }
  if (status == Code::corrupt) return name_corrupt();
  if (status == Code::no_memory && !lost.empty()) job.agreement->report_later(std::move(lost));
  if (status && !lost.empty()) return {Code::peer_lost, job.agreement->name(lost)};
  return status;
}

// thread: null if the caller alone ends the phase and other threads receive.
Status ExchangeBase::Impl::quiesce(Thread* thread, const Background& drain) {
  const trace::Span span("quiesce");
  const int number = thread != nullptr ? thread->number : 0;
  const int num = thread != nullptr ? num_threads : 1;
  const bool leads = number == 0;
  // Every meeting of the rank's threads advances `step` by one.
  const std::uint32_t begin = step.load(std::memory_order_acquire);
  if (thread != nullptr) (void)flush(*thread);  // losses and shortages are detected below
  num_arrived.fetch_add(1, std::memory_order_acq_rel);

  const auto until = [&](auto&& done) { receive_until(*this, number, drain, done); };
  const auto advance = [&] {
    // release: this thread's decisions; pairs with the acquires of the others.
    step.fetch_add(1, std::memory_order_release);
    for (int t = 1; t < num; ++t) ring_doorbell(local.sleeping(t));
  };
  // Blocks of a lost rank are received before the phase is over.
  const auto drain_lost = [&] {
    drain.work(drain.argument);
    if (thread != nullptr) drop_lanes_of_lost(*thread);
  };

  if (leads) {
    until([&] { return num_arrived.load(std::memory_order_acquire) == num; });
    num_arrived.store(0, std::memory_order_relaxed);
    const Background* before = std::exchange(background, &drain);
    bool all = false;
    Status status = or_no_memory([&] { return agree_on_counts(all); });
    receive_more = status.ok() && !all;
    known_lost = engine.num_lost();
    advance();
    if (!status.ok() || !all) status = end_phase(drain, std::move(status), all, thread != nullptr);
    background = before;
    outcome = std::move(status);
    const Status result = outcome;
    num_finished.store(num - 1, std::memory_order_relaxed);
    advance();
    if (some_left_out) drain_lost();
    // The others receive until they see this, and must not find messages of the next phase.
    Waiter waiter(*this, 0);
    while (num_finished.load(std::memory_order_acquire) != 0) waiter.pause();
    some_left_out = false;
    // After `corrupt` the counts are unusable; `no_memory` ends no phase.
    if (!(result == Code::corrupt) && !(result == Code::no_memory))
      phase.fetch_add(1, std::memory_order_relaxed);
    advance();
    return result;
  }
  ring_doorbell(local.sleeping(0));
  until([&] { return step.load(std::memory_order_acquire) != begin; });
  if (receive_more) {
    // Until this rank has all blocks, or an error.
    until([&] {
      return is_complete() || corrupt.load(std::memory_order_acquire) || is_short() ||
             engine.num_lost() != known_lost;
    });
    // The leader may wait for the last block.
    ring_doorbell(local.sleeping(0));
  }
  until([&] { return step.load(std::memory_order_acquire) == begin + 2; });
  const Status result = outcome;
  if (some_left_out) drain_lost();
  if (num_finished.fetch_sub(1, std::memory_order_acq_rel) == 1) ring_doorbell(local.sleeping(0));
  Waiter waiter(*this, number);
  while (step.load(std::memory_order_acquire) != begin + 3) waiter.pause();
  return result;
}

Status ExchangeBase::quiesce() {
  return impl_->quiesce(nullptr, {[](void*) {}, nullptr});
}

Status ExchangeBase::quiesce(int number, bool (*drain)(void*), void* argument) {
  if (!has_thread(number))
    return {Code::bad_argument, fmt::format("there is no thread {} in this exchange, which has {}",
                                            number, num_threads_)};
  struct Call {
    bool (*drain)(void*);
    void* argument;
  } call{drain, argument};
  return impl_->quiesce(impl_->threads[static_cast<std::size_t>(number)].get(),
                        {[](void* of) {
                           auto* the_call = static_cast<Call*>(of);
                           (void)the_call->drain(the_call->argument);
                         },
                         &call});
}

}  // namespace weft::transport
