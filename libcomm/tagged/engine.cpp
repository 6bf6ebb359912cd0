// The calls of Engine.
#include "tagged/engine.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>

#include "base/shortage.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tagged/impl.hpp"
#include "weft/copy.hpp"

namespace weft::tagged {
namespace {

// Every so many receives one takes the full path, on which everything else progresses, too.
constexpr unsigned kReceivesAtOnce = 64;

inline void begin(Request& request, bool is_receive, std::uint32_t context, void* buffer,
                  std::size_t length) noexcept {
  request.complete.store(false, std::memory_order_relaxed);
  request.code = Code::ok;
  request.is_receive = is_receive;
  request.context = context;
  request.buffer = buffer;
  request.length = length;
}

}  // namespace

Engine::Engine(std::unique_ptr<Shared> shared)
    : shared_(std::move(shared)),
      impl_(&shared_->first()),
      has_remote_(shared_->has_remote.load()) {}
Engine::~Engine() = default;

Status Engine::create(Members& job, std::unique_ptr<Engine>& engine) {
  auto shared = std::make_unique<Shared>(job);
  if (Status status = shared->make(0); !status) return status;
  engine.reset(new Engine(std::move(shared)));
  return {};
}

bool Engine::has_vcis() const noexcept { return shared_->has_others(); }

Status Engine::open_context(std::uint32_t context) {
  const int number = vci_of(context);
  if (shared_->vcis[static_cast<std::size_t>(number)].load(std::memory_order_acquire) != nullptr)
    return {};
  return or_no_memory([&] { return shared_->make(number); });
}

inline Engine::Impl& Engine::of(std::uint32_t context) const noexcept {
  return context >> 30 != 1 ? *impl_ : shared_->of(context);
}

int Engine::rank() const noexcept { return impl_->job.rank(); }
int Engine::size() const noexcept { return impl_->job.size(); }
Members& Engine::job() noexcept { return impl_->job; }
void Engine::set_threaded(bool threaded) noexcept {
  shared_->for_each([threaded](Impl& vci) { vci.set_threaded(threaded); });
}
bool Engine::is_threaded() const noexcept { return impl_->threaded; }
void Engine::set_observer(void (*observer)(const Notice&) noexcept) noexcept {
  shared_->observer.store(observer, std::memory_order_relaxed);
}
void Engine::set_wait_observer(WaitObserver observer) noexcept {
  shared_->wait_observer.store(observer, std::memory_order_relaxed);
}
Engine::View Engine::view(const Request& request) {
  const Guard guard(of(request.context));
  const auto phase = request.phase;
  const bool is_moving =
      phase == kArriving || phase == kCopying || phase == kFragments || phase == kStreaming;
  return {request.peer, request.tag, request.length, !request.is_receive, is_moving};
}
bool Engine::has_under_way() const noexcept {
  bool is_copying = false;
  shared_->for_each([&is_copying](Impl& vci) { is_copying |= Guard(vci)->is_copying(); });
  return is_copying || std::ranges::any_of(impl_->fabrics->remote(), [](const auto* lanes) {
           return lanes->has_under_way();
         });
}
void Engine::visit_unexpected(std::size_t most, void* object,
                              void (*f)(void*, const MessageInfo&, std::uint32_t)) {
  shared_->for_each([&](Impl& vci) {
    const Guard guard(vci);
    vci.matcher.for_each_unexpected([&](const Unexpected& message) {
      if (most == 0) return false;
      --most;
      f(object, {message.source, message.tag, message.bytes}, message.context);
      return true;
    });
  });
}
void Engine::set_background(void (*work)(bool before_sleep)) noexcept {
  shared_->background.store(work, std::memory_order_release);
}

bool Engine::try_send(int rank, std::uint32_t context, std::int32_t tag, const void* data,
                      std::size_t length, bool later) {
  Impl& impl = of(context);
  const Guard guard(impl);
  Peer& peer = impl.peer(rank);
  if (length < impl.plain_below && peer.is_clear()) [[likely]] {
    std::byte* to = peer.out.ring.reserve(length);
    if (to == nullptr) return false;
    detail::copy_small(to, data, length);
    peer.out.publish_mapped(kEager, length, envelope(context, tag));
    return true;
  }
  if (!peer.out.connected()) [[unlikely]] {
    if (peer.lost || impl.connect(peer) != Code::ok) return false;
  }
  if (length > peer.copy_policy.piece_bytes || peer.queue_head != nullptr || peer.lost)
    return false;
  if (peer.out.on_hold()) [[unlikely]]
    return false;
  return peer.out.send(kEager, envelope(context, tag), data, length, later);
}

void Engine::push_remote() noexcept {
  for (auto* lanes : impl_->fabrics->remote()) lanes->push();
}

bool Engine::try_receive(int rank, std::uint32_t context, std::int32_t tag, void* buffer,
                         std::size_t room, MessageInfo& info) {
  Impl& impl = of(context);
  // These polls must not delay pending progress or other threads.
  if (impl.threaded || impl.has_remote.load(std::memory_order_relaxed) || !impl.blocked.empty() ||
      !impl.copies.empty() || ++impl.received_at_once % kReceivesAtOnce == 0)
    return false;
  Peer& peer = impl.peer(rank);
  if (!peer.accepted || peer.lost || !impl.matcher.none_posted(rank, context) ||
      impl.matcher.find_unexpected(rank, context, tag) != nullptr)
    return false;
  Entry entry;
  for (unsigned polls = 0; !peer.in.peek(entry); ++polls)
    if (polls == impl.receive_polls) return false;
  const auto arrived_tag = static_cast<std::int32_t>(entry.immediate);
  if (entry.kind != kEager || entry.length > room || (entry.immediate >> 32) != context ||
      !tag_matches(tag, arrived_tag))
    return false;
  detail::copy_small(buffer, entry.data, entry.length);
  peer.in.ring.pop(entry.length);
  peer.in.return_credit(false);
  info = {rank, arrived_tag, entry.length};
  return true;
}

void Engine::isend(Request& request, int rank, std::uint32_t context, std::int32_t tag,
                   const void* data, std::size_t length, bool synchronous) {
  Impl& impl = of(context);
  begin(request, false, context, const_cast<void*>(data), length);
  request.synchronous = synchronous;
  request.peer = rank;
  request.tag = tag;
  request.stream_id = 0;
  request.phase = kQueued;
  const Guard guard(impl);
  ++impl.num_begun;
  // A thread may have found the context usable just before another one revoked it.
  if (impl.is_exceptional && impl.is_revoked(context)) [[unlikely]]
    return impl.complete(request, Code::peer_lost);
  Peer& peer = impl.peer(rank);
  const Code connected = impl.connect(peer);
  if (connected == Code::peer_lost) return impl.complete(request, Code::peer_lost);
  if (connected != Code::ok || peer.queue_head != nullptr || !impl.send_some(peer, request))
    impl.enqueue(peer, request);
}

void Engine::irecv(Request& request, int source, std::uint32_t context, std::int32_t tag,
                   void* buffer, std::size_t room) {
  Impl& impl = of(context);
  begin(request, true, context, buffer, room);
  request.peer = source;
  request.tag = tag;
  request.received = 0;
  request.phase = kPosted;
  const Guard guard(impl);
  ++impl.num_begun;
  if (Unexpected* message = impl.matcher.find_unexpected(source, context, tag)) [[unlikely]] {
    // Only a shortage of memory makes this loop wait.
    while (!impl.receive_unexpected(request, *message)) {
      Peer& peer = impl.peer(message->source);
      if (!impl.is_before_deadline(peer, peer.no_receive_memory_ns, "no memory for its message"))
        return impl.complete(request, Code::no_memory);
      sched_yield();
    }
    return;
  }
  if (const int lost = impl.find_lost(source, context); lost != Impl::kNobody) [[unlikely]] {
    if (!request.stays_posted || source != kAnySource || impl.is_revoked(context)) {
      request.peer = lost;
      return impl.complete(request, Code::peer_lost);
    }
    impl.pause(request);
  }
  impl.matcher.post(request);
}

void Engine::set_senders(std::span<const int> (*senders)(std::uint32_t context) noexcept) noexcept {
  shared_->senders.store(senders, std::memory_order_relaxed);
}

void Engine::close_context(std::uint32_t context) noexcept {
  Guard(of(context))->close_context(context);
}
void Engine::acknowledge(std::uint32_t context, std::span<const int> peers) {
  Guard(of(context))->acknowledge(context, peers);
}
void Engine::revoke(std::uint32_t context) { Guard(of(context))->revoke(context); }

void Engine::set_control(std::uint32_t context, bool (*work)()) noexcept {
  count_unexpected_of(context);
  shared_->control.store(work, std::memory_order_release);
}

void Engine::Shared::run_control() {
  // relaxed: the lock of the VCI orders the messages that are counted.
  const std::uint32_t now = first().matcher.num_counted();
  if (now == num_controls_seen.load(std::memory_order_relaxed)) return;
  auto* work = control.load(std::memory_order_acquire);
  if (work == nullptr) return;
  num_controls_seen.store(now, std::memory_order_relaxed);
  if (work()) num_controls_seen.store(now - 1, std::memory_order_relaxed);
}

void Engine::keep(std::unique_ptr<Kept> memory) noexcept {
  const std::lock_guard lock(shared_->keeping);
  std::erase_if(shared_->kept, [](const auto& each) { return each->is_over(); });
  // Without memory for the entry it is never freed.
  if (or_no_memory([&] { make_room(shared_->kept); }) == Code::ok)
    shared_->kept.push_back(std::move(memory));
  else
    (void)memory.release();
}

bool Engine::irecv_matched(Request& request, Unexpected* message, void* buffer, std::size_t room) {
  begin(request, true, message->context, buffer, room);
  Impl& impl = of(request.context);
  const Guard guard(impl);
  ++impl.num_begun;
  if (impl.receive_unexpected(request, *message)) return true;
  --impl.num_begun;
  return false;
}

bool Engine::cancel(Request& request) {
  Impl& impl = of(request.context);
  const Guard guard(impl);
  if (request.is_over()) return false;
  if (!request.is_receive) return impl.withdraw(request);
  if (request.phase != kPosted) return false;
  impl.matcher.remove_posted(request);
  impl.complete(request, Code::cancelled);
  return true;
}

Code Engine::iprobe(int source, std::uint32_t context, std::int32_t tag, MessageInfo& info) {
  Impl& impl = of(context);
  impl.progress_others_at_times();
  const Guard guard(impl);
  impl.progress();
  const Unexpected* message = impl.matcher.find_unexpected(source, context, tag);
  if (message == nullptr) return impl.lost_or_again(source, context, tag, info);
  info = {message->source, message->tag, message->bytes};
  return Code::ok;
}

Code Engine::improbe(int source, std::uint32_t context, std::int32_t tag, MessageInfo& info,
                     Unexpected*& message) {
  Impl& impl = of(context);
  impl.progress_others_at_times();
  const Guard guard(impl);
  impl.progress();
  message = impl.matcher.find_unexpected(source, context, tag);
  if (message == nullptr) return impl.lost_or_again(source, context, tag, info);
  impl.matcher.remove_unexpected(*message);
  message->taken = true;
  info = {message->source, message->tag, message->bytes};
  return Code::ok;
}

void Engine::progress(std::uint32_t context) {
  Impl& impl = of(context);
  if (context == kAnyContext)
    impl.progress_others();
  else
    impl.progress_others_at_times();
  {
    const Guard guard(impl);
    const std::uint64_t before = impl.num_completed;
    impl.progress();
    if (impl.num_completed != before) return;
  }
  idle();
}

void Engine::wait_slow(const WaitCondition& condition, const Awaited& awaited) {
  const std::uint32_t context = awaited.context;
  const bool everywhere = context == kAnyContext;
  const bool is_counted = is_threaded();
  if (is_counted) shared_->num_callers.fetch_add(1, std::memory_order_relaxed);
  (everywhere ? *impl_ : of(context)).wait(condition, everywhere, true, awaited);
  if (is_counted) shared_->num_callers.fetch_sub(1, std::memory_order_relaxed);
}

void Engine::wait_asleep(const WaitCondition& condition) {
  impl_->wait(condition, true, false, {kAnyContext, nullptr, kAnySleep});
}

bool Engine::has_callers() const noexcept {
  return shared_->num_callers.load(std::memory_order_relaxed) != 0;
}

bool Engine::has_requests() noexcept {
  bool any = false;
  shared_->for_each([&any](Impl& vci) {
    const Guard guard(vci);
    any = any || vci.num_begun != vci.num_completed;
  });
  return any;
}

void Engine::ring(int peer) noexcept {
  if (peer == rank()) return ring_doorbell(impl_->local->sleeping(0));
  if (auto* sleeping = impl_->local->peer_sleeping(peer)) ring_doorbell(*sleeping);
}

Fabrics& Engine::fabrics() noexcept { return *impl_->fabrics; }

void Engine::check_for_lost() {
  shared_->for_each([](Impl& vci) { Guard(vci)->check_liveness(); });
  if (!shared_->has_others()) return;
  // Whom one VCI has lost, the others lose when they look the next time: now.
  for (int rank = 0; rank < size(); ++rank)
    if (shared_->state_of(rank) != PeerState::alive && is_alive(rank)) lose(rank);
}

void Engine::watch(int peer) noexcept { Guard(*impl_)->peer(peer).watched = true; }

void Engine::lose(int peer) {
  shared_->for_each([peer](Impl& vci) {
    const Guard guard(vci);
    if (static_cast<std::size_t>(peer) < vci.peers.size()) vci.end_of(vci.peer(peer));
  });
}

bool Engine::is_alive(int peer) const noexcept {
  if (peer < impl_->job.size())
    return !shared_->fates[static_cast<std::size_t>(peer)].is_lost.load(std::memory_order_acquire);
  return !Guard(*impl_)->peer(peer).lost;
}

bool Engine::has_left(int peer) const noexcept {
  if (peer < impl_->job.size())
    return !is_alive(peer) && shared_->state_of(peer) == PeerState::left;
  return Guard(*impl_)->peer(peer).left;
}

void Engine::count_unexpected_of(std::uint32_t context) noexcept {
  Guard(of(context))->matcher.count(context);
}

std::uint32_t Engine::num_unexpected() const noexcept {
  std::uint32_t sum = 0;
  shared_->for_each([&sum](Impl& vci) { sum += vci.matcher.num_counted(); });
  return sum;
}
std::size_t Engine::unexpected_level() const noexcept {
  std::size_t sum = 0;
  shared_->for_each([&sum](Impl& vci) { sum += vci.matcher.level(); });
  return sum;
}
std::size_t Engine::unexpected_peak() const noexcept {
  std::size_t sum = 0;
  shared_->for_each([&sum](Impl& vci) { sum += vci.matcher.peak(); });
  return sum;
}
void Engine::restart_peak() const noexcept {
  shared_->for_each([](Impl& vci) { vci.matcher.restart_peak(); });
}

std::uint32_t Engine::num_lost() const noexcept {
  return shared_->num_lost.load(std::memory_order_acquire);
}

const std::atomic<std::uint32_t>& Engine::lost_counter() const noexcept {
  return shared_->num_lost;
}

std::vector<int> Engine::lost() const {
  const std::lock_guard lock(shared_->losses);
  return shared_->lost;
}

void Engine::note_reported_lost(int peer) noexcept {
  shared_->last_reported_lost.store(peer, std::memory_order_relaxed);
}

int Engine::last_reported_lost() const noexcept {
  return shared_->last_reported_lost.load(std::memory_order_relaxed);
}

Loss Engine::loss_of(int rank) const noexcept {
  for (const auto* lanes : impl_->fabrics->remote())
    if (lanes->covers(rank))
      if (const Loss loss = lanes->loss_of(rank); loss != Loss::other) return loss;
  // The kernel says so.
  const bool is_local = rank < impl_->job.size() && impl_->job.same_host(impl_->job.rank(), rank);
  return is_local && impl_->fabrics->local().state(rank) == PeerState::dead ? Loss::ended
                                                                            : Loss::other;
}

std::string Engine::describe_lost(std::span<const int> ranks) const {
  constexpr std::size_t kMostNames = 4;  // fit into MPI_MAX_ERROR_STRING
  const Members& job = impl_->job;
  const std::string time = text_of_time(job.settings().ns(Setting::peer_timeout_ms));
  std::size_t num_cut_off = 0;
  for (const auto* lanes : impl_->fabrics->remote()) num_cut_off += lanes->num_cut_off();
  const auto num_others = static_cast<std::size_t>(job.size() - 1);
  const bool is_own = std::ranges::find(ranks, job.rank()) != ranks.end();
  if (num_cut_off > 0 && (is_own || (num_others > 1 && 2 * num_cut_off > num_others)))
    return fmt::format("this process has been cut off from {} of {} other ranks for {}",
                       std::min(num_cut_off, num_others), num_others, time);
  if (is_own)
    return fmt::format("this process was cut off from others for {}, and they have given it up",
                       time);
  std::string text;
  for (const int rank : ranks.first(std::min(ranks.size(), kMostNames))) {
    text += (text.empty() ? "" : ", ") + job.describe(rank);
    const Loss loss = loss_of(rank);
    if (loss == Loss::ended) text += " has ended";
    if (loss == Loss::unreachable) text += " has been unreachable for " + time;
  }
  if (ranks.size() > kMostNames) text += fmt::format(" and {} more", ranks.size() - kMostNames);
  return text;
}

std::string Engine::describe(const Request& request) const {
  if (!request.is_over())
    return "it waits on; a process that may be the sender has died, which is not acknowledged";
  if (request.code == Code::peer_lost) {
    const std::string text = describe_lost({&request.peer, 1});
    return text.ends_with(')') ? text + " is lost" : text;
  }
  if (request.code == Code::truncated)
    return fmt::format("a message of {} bytes from {} does not fit into {} bytes", request.received,
                       impl_->job.describe(request.peer), request.length);
  return fmt::format("{} with {}", code_name(request.code), impl_->job.describe(request.peer));
}

bool Engine::Impl::all_out() noexcept {
  bool all = blocked.empty() && copies.empty();
  // The receiver gets the data of other RTS by itself.
  sends.for_each(
      [&all](std::uint64_t, const Request* request) { all = all && request->packer == nullptr; });
  return all;
}

Status Engine::flush() {
  Impl& impl = *impl_;
  const std::uint64_t limit = now_ns() + impl.job.settings().ns(Setting::peer_timeout_ms);
  const auto all_out = [this] {
    bool all = true;
    shared_->for_each([&all](Impl& vci) { all = Guard(vci)->all_out() && all; });
    return all;
  };
  wait_until([&] { return all_out() || now_ns() > limit; });
  Status status;
  shared_->for_each([&status](Impl& vci) {
    const Guard guard(vci);
    if (!vci.blocked.empty())
      status = {Code::timed_out, fmt::format("messages to {} were not taken in time",
                                             vci.job.describe(vci.blocked.front()->rank))};
  });
  return status;
}

Status Engine::close() {
  shared_->for_each([](Impl& vci) { vci.closed = true; });
  Status status = flush();
  for (auto* lanes : impl_->fabrics->remote()) lanes->leave();
  impl_->local->leave();
  return status;
}

}  // namespace weft::tagged
