// The end of a phase. Every rank counts the blocks that it has sent to each other one since the
// exchange was opened. One allreduce adds these vectors up, and tells each rank how many blocks
// must have come to it; with them go how many it has received. If that shows that nothing is under
// way, the phase is over after this one allreduce. Otherwise the ranks receive until the count is
// complete, and a second allreduce tells that all are.
//
// What a rank sends after its phase is over carries the next phase's number, and a receiver that
// has not heard of the end yet leaves it in the ring. So a rank may go on receiving while it waits
// for the others, which may need that to get on, and yet counts the blocks of this phase only.
#include "base/log.hpp"
#include "exchange/exchange_impl.hpp"

namespace weft::transport {
namespace {

// Does what a thread can do while it waits; sleeps in the end.
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

const coll::Reduction kAdd{add, nullptr, sizeof(std::uint64_t), true};

}  // namespace

std::uint64_t ExchangeBase::Impl::received_here() const noexcept {
  std::uint64_t sum = 0;
  // acquire: pairs with the release in finish_block().
  for (const auto& thread : threads) sum += thread->received.load(std::memory_order_acquire);
  return sum;
}

// By one thread of the rank; the others are at rest as far as sending goes.
Status ExchangeBase::Impl::agree_on_counts(bool& all) {
  const auto size = static_cast<std::size_t>(job.members->size());
  // Sent to each rank; received here; ranks in trouble.
  std::vector<std::uint64_t> counts(size + 2);
  for (const auto& thread : threads)
    for (std::size_t rank = 0; rank < size; ++rank)
      counts[rank] += thread->sent[rank].load(std::memory_order_relaxed);
  counts[size] = received_here();
  counts[size + 1] = corrupt.load(std::memory_order_acquire) ? 1 : 0;
  Status status = coll::allreduce(*job.team, nullptr, counts.data(), counts.size(), kAdd);
  if (!status) return status;
  std::uint64_t sent = 0;
  for (std::size_t rank = 0; rank < size; ++rank) sent += counts[rank];
  expected = counts[static_cast<std::size_t>(job.members->rank())];
  all = sent == counts[size];
  if (counts[size + 1] != 0) return {Code::corrupt, "a lane between two ranks was closed"};
  return {};
}

// thread: null if the caller alone ends the phase and others receive.
Status ExchangeBase::Impl::quiesce(Thread* thread, const Background& drain) {
  const int number = thread != nullptr ? thread->number : 0;
  const int num = thread != nullptr ? num_threads : 1;
  const bool leads = number == 0;
  // Every meeting of the rank's threads moves `step` by one.
  const std::uint32_t begin = step.load(std::memory_order_acquire);
  if (thread != nullptr) (void)flush(*thread);  // who is lost shows below
  num_arrived.fetch_add(1, std::memory_order_acq_rel);

  const auto until = [&](auto&& done) { receive_until(*this, number, drain, done); };
  const auto advance = [&] {
    // release: what this thread decided; pairs with the acquires of the others.
    step.fetch_add(1, std::memory_order_release);
    for (int t = 1; t < num; ++t) ring_doorbell(local.sleeping(t));
  };
  const auto in_trouble = [this] {
    return engine.num_lost() != 0 || corrupt.load(std::memory_order_acquire);
  };

  if (leads) {
    until([&] { return num_arrived.load(std::memory_order_acquire) == num; });
    num_arrived.store(0, std::memory_order_relaxed);
    const Background* before = std::exchange(background, &drain);
    bool all = false;
    outcome = agree_on_counts(all);
    receive_more = outcome.ok() && !all;
    background = before;
    advance();
  } else {
    ring_doorbell(local.sleeping(0));
    until([&] { return step.load(std::memory_order_acquire) != begin; });
  }

  const bool second = receive_more;
  if (second) {
    if (thread == nullptr) others_receive.store(true, std::memory_order_relaxed);
    until([&] { return received_here() >= expected || in_trouble(); });
    if (thread == nullptr) others_receive.store(false, std::memory_order_relaxed);
    // The others' last block may have been what the leader waits for.
    if (!leads) ring_doorbell(local.sleeping(0));
  }
  if (leads) {
    if (second) {
      std::uint64_t trouble = in_trouble() ? 1 : 0;
      const Background* before = std::exchange(background, &drain);
      outcome = coll::allreduce(*job.team, nullptr, &trouble, 1, kAdd);
      background = before;
      if (outcome && trouble != 0)
        outcome = engine.num_lost() != 0
                      ? Status(Code::peer_lost, "a rank is lost")
                      : Status(Code::corrupt, "a lane between two ranks was closed");
    }
    const Status result = outcome;
    num_finished.store(num - 1, std::memory_order_relaxed);
    advance();
    // The others receive until they see this, and must not find messages of the next phase.
    Waiter waiter(*this, 0);
    while (num_finished.load(std::memory_order_acquire) != 0) waiter.pause();
    if (result) phase.fetch_add(1, std::memory_order_relaxed);
    advance();
    return result;
  }
  until([&] { return step.load(std::memory_order_acquire) == begin + 2; });
  const Status result = outcome;
  if (num_finished.fetch_sub(1, std::memory_order_acq_rel) == 1) ring_doorbell(local.sleeping(0));
  Waiter waiter(*this, number);
  while (step.load(std::memory_order_acquire) != begin + 3) waiter.pause();
  return result;
}

Status ExchangeBase::quiesce() {
  return impl_->quiesce(nullptr, {[](void*) {}, nullptr});
}

Status ExchangeBase::quiesce(int number, bool (*drain)(void*), void* argument) {
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
