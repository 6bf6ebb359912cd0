// Lost peers: noticing them, and ending what needs them.
#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "tagged/impl.hpp"

namespace weft::tagged {
namespace {
constexpr std::uint64_t kLivenessPeriodNs = 20'000'000;
}

void Engine::Impl::check_liveness() {
  const std::uint64_t now = now_ns();
  if (now - last_liveness_ns < kLivenessPeriodNs) return;
  last_liveness_ns = now;
  for (Peer& peer : peers) {
    if (peer.lost || peer.rank == job.rank()) continue;
    const PeerState state = fabric->state(peer.rank);
    if (state == PeerState::alive) continue;
    // What it sent before it ended still counts.
    if (connections->load(std::memory_order_acquire) != known_connections) accept_peers();
    if (peer.accepted)
      for (std::uint64_t before = ~std::uint64_t{0}; before != peer.in.ring.consumed();) {
        before = peer.in.ring.consumed();
        drain(peer);
      }
    if (state == PeerState::dead && !closed)
      log_line(LogLevel::info, job.rank(), "{} died", job.describe(peer.rank));
    lose(peer);
  }
}

void Engine::Impl::lose(Peer& peer) {
  if (peer.lost) return;
  peer.lost = true;
  std::erase(incoming, &peer);
  peer.controls.clear();
  while (Request* request = peer.queue_head) {
    peer.queue_head = request->next;
    complete(*request, Code::peer_lost);
  }
  peer.queue_tail = nullptr;

  const auto fail_all = [&](RequestTable& table) {
    std::vector<Request*> doomed;
    table.for_each([&](Request& request) {
      if (request.peer == peer.rank) doomed.push_back(&request);
    });
    for (Request* request : doomed) {
      table.remove(request->id);
      complete(*request, Code::peer_lost);
    }
  };
  fail_all(sends);
  fail_all(receives);

  for (std::size_t i = 0; i < transfers.size();) {
    if (transfers[i].peer != peer.rank) {
      ++i;
      continue;
    }
    Request* request = transfers[i].request;
    transfers.erase(transfers.begin() + static_cast<std::ptrdiff_t>(i));
    complete(*request, Code::peer_lost);
  }

  if (peer.incoming != nullptr) complete(*std::exchange(peer.incoming, nullptr), Code::peer_lost);
  if (Unexpected* message = std::exchange(peer.incoming_unexpected, nullptr)) {
    // Never whole: it did not arrive.
    if (message->receiver != nullptr)
      complete(*message->receiver, Code::peer_lost);
    else
      matcher.remove_unexpected(*message);
    matcher.release(message);
  }

  // A receive from any source may have waited for this peer: its owner must know, once.
  matcher.for_each_posted([&](Request& request) {
    if (request.peer != peer.rank && request.peer != kAnySource) return;
    matcher.remove_posted(request);
    request.peer = peer.rank;
    complete(request, Code::peer_lost);
  });
  // release: pairs with the acquire in Engine::num_lost.
  num_lost.fetch_add(1, std::memory_order_release);
}

}  // namespace weft::tagged
