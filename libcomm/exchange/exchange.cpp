// Exchange: opening, closing and waiting.
#include "weft/exchange.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <limits>

#include "base/log.hpp"
#include "base/trace.hpp"
#include "exchange/exchange_impl.hpp"
#include "lanes/linked/remote_lanes.hpp"

namespace weft::transport {
namespace {

constexpr std::uint32_t kPage = 4096;
// The default of ExchangeSettings::rendezvous_bytes, of which a program that knows better gives its
// own.
constexpr std::size_t kRendezvousBytes = 32 * 1024;

// The settings that ranks must agree on, and the number of threads of each.
struct Terms {
  int client;
  int num_threads;
  std::uint32_t message_bytes;
  int block_messages;
  std::uint64_t block_bytes;
  std::uint64_t ring_bytes;
  std::uint64_t rendezvous_bytes;
  std::uint64_t ring_min;
  int pairing;
  int unused;
};

}  // namespace

void Waiter::pause(std::uint64_t longest_us) noexcept {
  if (impl_.has_remote) impl_.job.poll_remote();
  if (stage_ == Stage::spin) {
    if (!impl_.crowded) {
      cpu_relax();
      if (++count_ % 64 != 0) return;
      const std::uint64_t now = now_ns();
      if (limit_ns_ == 0) limit_ns_ = now + impl_.spin_ns;
      if (now < limit_ns_) return;
    }
    stage_ = Stage::yield;
    limit_ns_ = count_ = 0;
  }
  if (stage_ == Stage::yield) {
    sched_yield();
    if (++count_ % 16 != 0) return;
    const std::uint64_t now = now_ns();
    if (limit_ns_ == 0) limit_ns_ = now + impl_.yield_ns;
    if (now < limit_ns_) return;
    stage_ = Stage::sleep;
  }
  auto& sleeping = impl_.local.sleeping(thread_);
  if (armed_ == 0) {
    impl_.engine.check_for_lost();
    impl_.job.agreement->answer();
    armed_ = arm_doorbell(sleeping);  // the caller checks once more before the sleep
    return;
  }
  if (impl_.has_remote) impl_.job.fabrics->watcher()->arm(sleeping);
  sleep_.sleep(sleeping, armed_, std::min(longest_us, longest_sleep_us(impl_.fence_works)));
  armed_ = 0;
}

ExchangeBase::Impl::Impl(Job& the_job, int the_num_threads, const ExchangeSettings& wanted,
                         std::uint32_t the_message_bytes)
    : job(the_job.impl()),
      engine(*job.engine),
      local(*job.local),
      has_remote(!job.fabrics->remote().empty()),
      num_threads(the_num_threads),
      message_bytes(the_message_bytes),
      wants_default_rings(wanted.ring_bytes == 0),
      settings(wanted) {
  const Settings& defaults = job.members->settings();
  ring_min = static_cast<std::uint32_t>(defaults.bytes(Setting::ring_min_bytes));
  if (wants_default_rings) settings.ring_bytes = defaults.bytes(Setting::ring_max_bytes);
  if (settings.rendezvous_bytes == 0) settings.rendezvous_bytes = kRendezvousBytes;
  spin_ns = defaults.ns(Setting::spin_us);
  yield_ns = defaults.ns(Setting::yield_us);
  fence_works = heavy_fence_register();
  client = job.free_client();
  is_out = std::vector<std::atomic<bool>>(static_cast<std::size_t>(job.members->size()));
  agree();
  job.clients.insert(client);
  job.last_client = client;

  const int size = job.members->size();
  int num_on_host = 0;
  for (int rank = 0; rank < size; ++rank)
    if (job.members->on_host(rank)) num_on_host += threads_of[static_cast<std::size_t>(rank)];
  crowded = num_on_host > job.members->num_cpus_on_host();
  counts.reserve(static_cast<std::size_t>(size) + 2);
  receiving = std::vector<detail::ReceiveBlock>(static_cast<std::size_t>(num_threads));
  for (int t = 0; t < num_threads; ++t) {
    auto thread = std::make_unique<Thread>();
    thread->number = t;
    thread->blocks.resize(static_cast<std::size_t>(num_destinations));
    thread->outs.resize(static_cast<std::size_t>(num_destinations));
    thread->sent = std::vector<std::atomic<std::uint64_t>>(static_cast<std::size_t>(size));
    thread->received_from = std::vector<std::atomic<std::uint64_t>>(static_cast<std::size_t>(size));
    thread->staging.open(job, defaults.bytes(Setting::exchange_staging_bytes));
    for (int rank = 0; rank < size; ++rank) {
      const auto [first, count] = destinations[static_cast<std::size_t>(rank)];
      for (int place = 0; place < count; ++place) {
        Out& out = thread->outs[static_cast<std::size_t>(first + place)];
        out.peer = rank;
        out.lanes = job.route(rank).lanes;
        const int there = threads_of[static_cast<std::size_t>(rank)];
        out.reader = settings.pairing == Pairing::thread_to_thread ? place : t % there;
      }
    }
    sending.push_back(thread->blocks.data());
    threads.push_back(std::move(thread));
  }
}

// Gathers the terms of all ranks, so that all reach the same verdict.
void ExchangeBase::Impl::agree() {
  Terms mine{};
  mine.client = client;
  mine.num_threads = num_threads;
  mine.message_bytes = message_bytes;
  mine.block_messages = settings.block_messages;
  mine.block_bytes = settings.block_bytes;
  mine.ring_bytes = settings.ring_bytes;
  mine.rendezvous_bytes = settings.rendezvous_bytes;
  mine.ring_min = ring_min;
  mine.pairing = static_cast<int>(settings.pairing);
  std::vector<Terms> all(static_cast<std::size_t>(job.members->size()));
  if (Status status = job.all_gather(&mine, all.data(), sizeof mine); !status) throw Error(status);
  leave_out_lost();
  const auto first = static_cast<std::size_t>(job.agreement->members().front());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    Terms terms = all[rank];
    if (!job.agreement->has(static_cast<int>(rank))) {
      threads_of.push_back(1);
      continue;
    }
    const Terms none{};
    if (std::memcmp(&terms, &none, sizeof terms) == 0)
      throw Error({Code::bad_argument,
                   fmt::format("rank {} opens no exchange here: it makes another collective call, "
                               "or ends its Job",
                               rank)});
    if (terms.num_threads < 1 || terms.num_threads > kMaxThreads)
      throw Error({Code::bad_argument, fmt::format("rank {} wants {} threads; 1 to {} can be", rank,
                                                   terms.num_threads, kMaxThreads)});
    threads_of.push_back(terms.num_threads);
    terms.num_threads = all[first].num_threads;
    if (std::memcmp(&terms, &all[first], sizeof terms) != 0)
      throw Error({Code::bad_argument,
                   fmt::format("rank {} opens another exchange than rank {}: exchange {} with "
                               "messages of {} bytes, not {} with {}, or other settings",
                               rank, first, terms.client, terms.message_bytes, all[first].client,
                               all[first].message_bytes)});
  }
  // From here on all ranks see the same numbers.
  if (client == 0)
    throw Error({Code::no_memory, fmt::format("{} exchanges are open at once", job.kMaxExchanges)});
  if (settings.block_messages < 1 || settings.block_bytes < 64 || settings.rendezvous_bytes < 256 ||
      settings.block_bytes > kMaxBlockBytes || message_bytes > kMaxBlockBytes)
    throw Error({Code::bad_argument,
                 "an exchange needs blocks of at least 1 message and 64 bytes to 1 GiB, and a "
                 "rendezvous threshold of at least 256 bytes"});
  if (message_bytes != 0) {
    const std::size_t fit = std::max<std::size_t>(
        1, std::min<std::size_t>(static_cast<std::size_t>(settings.block_messages),
                                 settings.block_bytes / message_bytes));
    block_bytes = fit * message_bytes;
  } else {
    block_bytes = settings.block_bytes / 4 * 4;
  }
  // The largest entry is a quarter of a ring at most.
  const std::size_t longest =
      std::min(settings.rendezvous_bytes, message_bytes == 0 ? kMaxBlockBytes : block_bytes);
  const std::size_t need = (4 * (longest + 2 * kEntryAlign) + kPage - 1) / kPage * kPage;
  if (wants_default_rings) settings.ring_bytes = std::max<std::size_t>(settings.ring_bytes, need);
  if (settings.ring_bytes % kPage != 0 || settings.ring_bytes < need ||
      settings.ring_bytes > (1u << 30))
    throw Error({Code::bad_argument,
                 fmt::format("ring_bytes is {}; it must be a multiple of {}, at most 1 GiB, and at "
                             "least {} for blocks of up to {} bytes",
                             settings.ring_bytes, kPage, need, longest)});
  ring_max = static_cast<std::uint32_t>(settings.ring_bytes);
  ring_min = std::min(ring_max, std::max(ring_min, static_cast<std::uint32_t>(need)));
  for (const int there : threads_of) {
    destinations.push_back(
        {num_destinations, settings.pairing == Pairing::thread_to_thread ? there : 1});
    num_destinations += destinations.back().count;
  }
}

// Returns true if the other hosts have read all data sent to them, within WEFT_PEER_TIMEOUT_MS. A
// closed lane counts as read.
bool ExchangeBase::Impl::wait_until_read() noexcept {
  const std::uint64_t start = now_ns();
  const auto limit = job.members->settings().ns(Setting::peer_timeout_ms);
  Waiter waiter(*this, 0);
  const auto is_read = [this](Thread& thread, Out& out) {
    // Otherwise the lane might reach the peer after it has closed this exchange.
    if (out.is_opening && connect(thread, out, false) == Code::again) return false;
    return out.lane.remote == nullptr || out.ended != Code::ok || is_lost(out.peer) ||
           out.lane.ring.is_read() || out.lane.is_closed();
  };
  for (;;) {
    drop_all();
    if (std::ranges::all_of(threads, [&](auto& thread) {
          return std::ranges::all_of(thread->outs, [&](Out& out) { return is_read(*thread, out); });
        }))
      return true;
    if (now_ns() - start >= limit) return false;
    waiter.pause(1000);
  }
}

ExchangeBase::Impl::~Impl() {
  // Senders must not wait for this process forever: their messages are received and dropped.
  dropping = true;
  const Background drop{[](void* impl) { static_cast<Impl*>(impl)->drop_all(); }, this};
  const Background* before = std::exchange(background, &drop);
  // The live ranks end it together, even if some are lost meanwhile.
  std::vector<int> lost;
  const auto barrier = [&] {
    Status status = job.barrier();
    for (; status == Code::peer_lost; status = job.barrier())
      lost.insert(lost.end(), job.agreement->lost().begin(), job.agreement->lost().end());
    return status;
  };
  Status status = barrier();
  // Between hosts, data sent before a barrier may arrive after it, so each rank waits until its own
  // data are read, and reads on until that is true for all.
  bool is_quiet = true;
  if (status && has_remote) {
    is_quiet = wait_until_read();
    status = barrier();
  }
  background = before;
  // No rank sends any more, but one that left the barrier last may still be dropping, and write
  // FINs to staged blocks: the memory is freed only after one more barrier.
  if (status) status = barrier();
  job.agreement->report_later(std::move(lost));
  if (status && !is_quiet) status = {Code::timed_out, "the last messages were not read"};
  if (status) {
    local.close_client(client);
    for (auto* lanes : job.fabrics->remote()) lanes->close_client(client);
    for (auto& thread : threads) thread->staging.close();
    job.clients.erase(client);
    return;
  }
  // A rank may still use the rings and the staged blocks: they are freed when the job ends.
  log_line(LogLevel::info, job.members->rank(), "closing an exchange: {}", status.text());
}

// An error that a thread must return before it waits.
Status ExchangeBase::Impl::trouble(Thread& thread) {
  if (const std::uint32_t num_lost = engine.num_lost(); num_lost != thread.lost_reported) {
    thread.lost_reported = num_lost;
    return {Code::peer_lost, job.agreement->name(engine.lost())};
  }
  if (corrupt.load(std::memory_order_acquire) && !thread.corrupt_reported) {
    thread.corrupt_reported = true;
    return {Code::corrupt, "a rank sent invalid data; its lane is closed"};
  }
  const bool is_short = num_shortages.load(std::memory_order_acquire) != 0;
  if (is_short && !std::exchange(thread.shortage_reported, is_short))
    return {Code::no_memory, "no memory to receive messages that have arrived"};
  thread.shortage_reported = is_short;
  return {};
}

ExchangeBase::ExchangeBase(Job& job, int num_threads, const ExchangeSettings& settings,
                           std::uint32_t message_bytes) try
    : impl_(std::make_unique<Impl>(job, num_threads, settings, message_bytes)) {
  sending_ = impl_->sending.data();
  receiving_ = impl_->receiving.data();
  num_threads_ = num_threads;
  destinations_ = impl_->destinations.data();
  num_destinations_ = impl_->num_destinations;
} catch (const std::bad_alloc&) {
  throw Error(Code::no_memory);
}

ExchangeBase::~ExchangeBase() {
  if (!impl_->job.is_own_process()) (void)impl_.release();
}

int ExchangeBase::num_threads(int rank) const noexcept {
  return impl_->threads_of[static_cast<std::size_t>(rank)];
}

Status ExchangeBase::wait(int number, std::chrono::microseconds timeout) {
  const trace::Span span("wait for messages");
  if (!has_thread(number))
    return {Code::bad_argument, fmt::format("there is no thread {} in this exchange, which has {}",
                                            number, num_threads_)};
  Thread& thread = *impl_->threads[static_cast<std::size_t>(number)];
  detail::ReceiveBlock& block = receiving_[number];
  if (block.held) {
    block.held = false;
    if (block.cursor == block.end) impl_->finish_block(thread);
  }
  const std::uint64_t start = now_ns();
  constexpr std::int64_t kLongestUs = std::numeric_limits<std::int64_t>::max() / 1000;
  const auto limit =
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(timeout.count(), 0, kLongestUs)) * 1000;
  Waiter waiter(*impl_, number);
  for (;;) {
    if (block.cursor != block.end || impl_->next_block(thread)) return {};
    if (Status status = impl_->trouble(thread); !status) return status;
    const std::uint64_t waited = now_ns() - start;
    if (waited >= limit) return Code::timed_out;
    waiter.pause((limit - waited) / 1000 + 1);
  }
}

}  // namespace weft::transport
