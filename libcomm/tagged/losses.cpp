// Lost peers: detecting them, and completing the requests that need them.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/trace.hpp"
#include "lanes/linked/remote_lanes.hpp"
#include "tagged/impl.hpp"

namespace weft::tagged {
namespace {
constexpr std::uint64_t kLivenessPeriodNs = 20'000'000;
constexpr std::size_t kMinPerCheck = 64;

// A peer that has closed the lane from here counts this process as lost.
bool is_closed(Peer& peer) noexcept {
  if (peer.remote || !peer.out.connected()) return false;
  peer.out.ring.poll_credit();
  return peer.out.is_closed();
}

}  // namespace

template <class F>
void Losses::for_each_sender(std::uint32_t context, F&& f) {
  const auto known = shared.senders.load(std::memory_order_relaxed);
  if (const auto senders = known != nullptr ? known(context) : std::span<const int>();
      !senders.empty()) {
    for (const int rank : senders)
      if (!f(peer(rank))) return;
  } else {
    for (int rank = 0; rank < job.size(); ++rank)
      if (!f(peer(rank))) return;
  }
}

void Losses::check_liveness() {
  const std::uint64_t now = now_ns();
  if (now - last_liveness_ns.load(std::memory_order_relaxed) < kLivenessPeriodNs) return;
  last_liveness_ns.store(now, std::memory_order_relaxed);
  if (has_remote) watch_awaited();
  const std::uint32_t ends = num_ends();
  const bool some_ended = std::exchange(num_ends_seen, ends) != ends;
  const std::size_t share = some_ended
                                ? peers.size()
                                : share_of_check(peers.size(), kMinPerCheck, kLivenessPeriodNs,
                                                 job.settings().patience_ns());
  for (std::size_t left = share; left > 0; --left) {
    if (next_check >= peers.size()) next_check = 0;
    Peer& peer = peers[next_check++];
    if (peer.lost || peer.rank == job.rank() || peer.lanes == nullptr) continue;
    if (peer.remote && (peer.accepted || peer.out.connected() || peer.listed)) watch(peer);
    const PeerState state = state_of(peer);
    if (state == PeerState::alive) {
      if (is_closed(peer)) end_of(peer);
      continue;
    }
    peer.left = state == PeerState::left;
    end_of(peer);
  }
}

std::uint32_t Losses::num_ends() const noexcept {
  std::uint32_t sum = shared.num_ends.load(std::memory_order_acquire);
  if (number == 0 && has_remote)
    for (const auto* lanes : fabrics->remote()) sum += lanes->num_ends();
  return sum;
}

// Only the first VCI asks the lanes; the others read the result from Shared.
PeerState Losses::state_of(const Peer& peer) const noexcept {
  PeerState state = shared.state_of(peer.rank);
  if (state != PeerState::alive || number != 0) return state;
  if (peer.remote && !peer.watched && !shared.is_watched(peer.rank)) return state;
  state = peer.lanes->state(peer.rank);
  if (state == PeerState::alive) return state;
  // One that is only out of reach was logged as such.
  const bool is_unreachable =
      peer.remote && peer.lanes->remote()->loss_of(peer.rank) == Loss::unreachable;
  if (state == PeerState::dead && !closed && !is_unreachable)
    log_peer(LogLevel::info, peer.rank, "{} died");
  shared.note_end(peer.rank, state);
  return state;
}

void Losses::check_liveness_if_due() {
  if (coarse_now_ns() <= last_liveness_ns.load(std::memory_order_relaxed) + kLivenessPeriodNs)
    return;
  Guard(vci())->check_liveness();
}

void Losses::end_of(Peer& peer) {
  if (peer.lost || peer.lanes == nullptr) return;
  // Messages that it sent before it ended are delivered.
  accept_peers(*peer.lanes);
  if (peer.accepted)
    for (std::uint64_t before = ~std::uint64_t{0}; before != peer.in.ring.consumed();) {
      before = peer.in.ring.consumed();
      drain(peer);
    }
  lose(peer);
}

// Remote peers are watched only once this process uses them, as watching costs messages.
void Losses::watch(Peer& peer) {
  if (std::exchange(peer.watched, true) || number == 0) return;
  shared.fates[static_cast<std::size_t>(peer.rank)].is_watched.store(true,
                                                                     std::memory_order_relaxed);
}

void Losses::watch_awaited() {
  matcher.for_each_posted([&](Request& request) {
    if (request.peer != kAnySource) return watch(peer(request.peer));
    for_each_sender(request.context, [this](Peer& any) {
      if (!any.watched) watch(any);
      return true;
    });
  });
}

void Losses::lose(Peer& peer) {
  if (peer.lost) return;
  peer.lost = true;
  peer.loss = ++num_losses;
  // It may be alive, if it was lost for invalid data or as another peer reported.
  if (peer.accepted && !peer.remote) peer.in.close();
  // After this nothing is written to the buffers of its requests.
  if (peer.remote) peer.lanes->remote()->disconnect(peer.rank);
  std::erase(peer.remote ? arriving : incoming, &peer);
  peer.controls.clear();
  while (Request* request = peer.queue_head) {
    peer.queue_head = request->next;
    complete(*request, Code::peer_lost);
  }
  peer.queue_tail = nullptr;

  lose_rendezvous(peer);
  lose_incoming(peer);

  // A receive from any source may have waited for this peer.
  matcher.for_each_posted([&](Request& request) {
    const bool is_any = request.peer == kAnySource;
    if (is_any ? !may_send(peer.rank, request.context) : request.peer != peer.rank) return;
    if (is_any && request.stays_posted) return pause(request);
    matcher.remove_posted(request);
    request.peer = peer.rank;
    complete(request, Code::peer_lost);
  });
  ++num_lost_peers;
  shared.note_lost(peer);
}

bool Losses::may_send(int rank, std::uint32_t context) {
  bool found = false;
  for_each_sender(context, [&](const Peer& sender) { return !(found = sender.rank == rank); });
  return found;
}

int Losses::find_lost_slow(int source, std::uint32_t context) noexcept {
  if (source != kAnySource) return peer(source).lost ? source : kNobody;
  const auto found = acknowledged.find(context);
  Acknowledged* known = found == acknowledged.end() ? nullptr : &found->second;
  const bool all_known = known != nullptr && known->num_losses == num_losses;
  const Peer* news = nullptr;  // the first loss that is not acknowledged
  const Peer* last = nullptr;
  bool is_any_left = false;
  for_each_sender(context, [&](const Peer& sender) {
    if (sender.rank == job.rank()) return true;
    if (!sender.lost) {
      is_any_left = true;
      return !all_known;
    }
    last = &sender;
    const bool is_news =
        known == nullptr || std::ranges::find(known->peers, sender.rank) == known->peers.end();
    if (is_news && (news == nullptr || sender.loss < news->loss)) news = &sender;
    return true;
  });
  // So that the next call need not check them again; without memory it does.
  if (news == nullptr) (void)or_no_memory([&] { acknowledged[context].num_losses = num_losses; });
  if (news == nullptr && !is_any_left) news = last;
  return news != nullptr ? news->rank : kNobody;
}

void Losses::pause(Request& request) noexcept {
  // release: pairs with is_complete(). `code` stays for complete(): its result is valid once over.
  request.complete.store(Request::kPaused, std::memory_order_release);
  if (num_waiting.load(std::memory_order_relaxed) != 0) ring_doorbell(local->sleeping(0));
}

void Losses::acknowledge(std::uint32_t context, std::span<const int> acknowledged_peers) {
  Acknowledged& known = acknowledged[context];
  for (const int rank : acknowledged_peers)
    if (std::ranges::find(known.peers, rank) == known.peers.end()) known.peers.push_back(rank);
  known.num_losses = 0;
  if (find_lost(kAnySource, context) != kNobody) return;
  const auto resume = [context](Request& request) {
    // relaxed: only this lock's holder changes a request that is not over.
    if (request.context == context &&
        request.complete.load(std::memory_order_relaxed) == Request::kPaused)
      request.complete.store(Request::kPending, std::memory_order_relaxed);
  };
  matcher.for_each_posted(resume);
  // Those that have matched meanwhile.
  for (const Peer& peer : peers)
    if (peer.incoming != nullptr) resume(*peer.incoming);
  for (const RendezvousCopy& copy : copies) resume(*copy.request);
  receives.for_each([&](std::uint64_t, Request* request) { resume(*request); });
}

bool Losses::is_revoked(std::uint32_t context) const noexcept {
  return std::ranges::find(revoked, context) != revoked.end();
}

void Losses::revoke(std::uint32_t context) {
  if (is_revoked(context)) return;
  revoked.push_back(context);
  is_exceptional = true;
  matcher.take_arrived(
      context, [this](Unexpected& message) { release_unexpected(peer(message.source), message); });
  matcher.for_each_posted([&](Request& request) {
    if (request.context != context) return;
    matcher.remove_posted(request);
    request.peer = job.rank();
    complete(request, Code::peer_lost);
  });
  revoke_sends(context);
}

void Losses::close_context(std::uint32_t context) noexcept {
  acknowledged.erase(context);
  if (std::erase(revoked, context) != 0) is_exceptional = some_apart || !revoked.empty();
}

Code Losses::lost_or_again(int source, std::uint32_t context, std::int32_t tag, MessageInfo& info) {
  // A probe by the library itself must not consume the report that the user of the context waits
  // for.
  if (source == kAnySource && tag < 0 && tag != kAnyTag) return Code::again;
  const int lost = find_lost(source, context);
  if (lost == kNobody) return Code::again;
  info.source = lost;
  return Code::peer_lost;
}

void Losses::lose_apart(int source) {
  if (source != kAnySource) {
    if (peer(source).lanes == nullptr) connect(peer(source));
    return;
  }
  const bool is_any_left = std::any_of(peers.begin(), peers.end(), [this](const Peer& other) {
    return other.rank != job.rank() && other.lanes != nullptr && !other.lost;
  });
  if (is_any_left) return;
  for (Peer& other : peers)
    if (other.lanes == nullptr) connect(other);
}

void Engine::Shared::note_end(int rank, PeerState state) noexcept {
  const auto i = static_cast<std::size_t>(rank);
  auto alive = PeerState::alive;
  if (i < fates.size() &&
      fates[i].state.compare_exchange_strong(alive, state, std::memory_order_relaxed))
    num_ends.fetch_add(1, std::memory_order_release);
}

void Engine::Shared::note_lost(const Peer& peer) noexcept {
  note_end(peer.rank, peer.left ? PeerState::left : PeerState::dead);
  const std::lock_guard lock(losses);
  const auto i = static_cast<std::size_t>(peer.rank);
  if (i < fates.size()) {
    Fate& fate = fates[i];
    // A process without a common fabric was never a peer of any VCI.
    const bool is_lost_in_all =
        peer.lanes == nullptr || ++fate.num_lost_in >= num_vcis.load(std::memory_order_relaxed);
    if (!is_lost_in_all || fate.is_lost.load(std::memory_order_relaxed)) return;
    fate.is_lost.store(true, std::memory_order_release);
  }
  const bool has_left = i < fates.size() ? state_of(peer.rank) == PeerState::left : peer.left;
  if (!has_left) {
    char who[32];
    const auto end = fmt::format_to_n(who, sizeof who, "rank {}", peer.rank);
    trace::mark("peer lost", {who, std::min(end.size, sizeof who)});
  }
  lost.push_back(peer.rank);
  if (!has_left) notify({Notice::Kind::lost, peer.rank, nullptr, 0});
  // release: pairs with the acquire in Engine::num_lost.
  num_lost.fetch_add(1, std::memory_order_release);
}

}  // namespace weft::tagged
