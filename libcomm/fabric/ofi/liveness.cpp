// Signs of life. A peer that somebody here waits for is asked for one whenever it has been silent
// for a while; one that stays silent for the timeout is dead. They also carry how many bytes were
// written so far: should the network's connection break and be made anew without anybody's notice,
// what was lost with it is missing in that count.
#include <rdma/fi_errno.h>
#include <sched.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/wait.hpp"
#include "fabric/ofi/ofi.hpp"

namespace weft::ofi {

void OfiFabric::watch(int peer) noexcept {
  PeerNode& node = this->node(peer);
  if (node.watched.exchange(true, std::memory_order_relaxed)) return;
  node.heard_ns = now_ns();
  node.asked_ns = 0;
  watched_.push_back(peer);
}

PeerState OfiFabric::state(int peer) noexcept {
  PeerNode& node = this->node(peer);
  if (!node.watched.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(lock_);
    if (reach(peer).ok()) watch(peer);
  }
  // acquire: pairs with the release where it is set.
  return node.state.load(std::memory_order_acquire);
}

void OfiFabric::check_peers(std::uint64_t now) noexcept {
  // Whoever was away (stopped, or starved) cannot tell who has been silent meanwhile.
  const bool was_away = checked_ns_ != 0 && now - checked_ns_ > timeout_ns_ / 4;
  checked_ns_ = now;
  for (std::size_t i = 0; i < watched_.size();) {
    const int peer = watched_[i];
    PeerNode& node = this->node(peer);
    if (node.state.load(std::memory_order_relaxed) != PeerState::alive) {
      watched_[i] = watched_.back();
      watched_.pop_back();
      continue;
    }
    ++i;
    if (was_away) node.heard_ns = now;
    const std::uint64_t silent = now - std::min(now, node.heard_ns);
    // Early enough that everybody has heard of it when the timeout ends.
    if (silent > timeout_ns_ - timeout_ns_ / 10) {
      // What needs it ends as if the peer had died, with its name alone.
      if (!node.answered && !leaving_)
        log_line(LogLevel::warn, job_.rank(),
                 "ofi: {} has never answered {} over {}: has it ended, or is a port closed?",
                 job_.describe(peer), job_.describe(job_.rank()), way_text(peer));
      lose(peer, "has been silent for too long");
      continue;
    }
    if (silent > timeout_ns_ / 8 && now - node.asked_ns > timeout_ns_ / 8 && node.outbox.empty()) {
      node.asked_ns = now;
      Control ping{};
      ping.type = Type::ping;
      ping.bytes = node.posted_bytes;
      send(peer, ping);
    }
  }
}

void OfiFabric::check_count(int peer, std::uint64_t bytes) noexcept {
  if (counts_checked_ && bytes != node(peer).arrived_bytes)
    lose(peer, "lost its connection, and messages with it");
}

void OfiFabric::lose(int peer, const char* why) noexcept {
  PeerNode& node = this->node(peer);
  if (node.state.load(std::memory_order_relaxed) != PeerState::alive) return;
  if (!leaving_) log_line(LogLevel::info, job_.rank(), "ofi: {} {}", job_.describe(peer), why);
  if (node.answered && node.handle != FI_ADDR_NOTAVAIL) {
    Control last{};
    last.type = Type::lost;
    sign(last, node);
    (void)try_send(node, last);
  }
  node.state.store(PeerState::dead, std::memory_order_release);
  // First of all: whoever hears that an operation has failed may use its buffer for something else.
  close_connection(node);
  forget_pushes(peer);
  abandon_operations(peer);
  ring_all();
}

// With FI_AV_REMOVE_CLEANUP, see library.cpp, no byte comes in after it; over the native endpoints
// it goes into receive buffers and rings only, which stay.
void OfiFabric::close_connection(PeerNode& node) noexcept {
  if (node.handle == FI_ADDR_NOTAVAIL) return;
  fi_av_remove(endpoint_->av(), &node.handle, 1, 0);
  node.handle = FI_ADDR_NOTAVAIL;
}

void OfiFabric::disconnect(int peer) noexcept {
  const std::lock_guard lock(lock_);
  PeerNode& node = this->node(peer);
  if (node.state.load(std::memory_order_relaxed) == PeerState::left) {
    // Its answer to our goodbye may still be on its way.
    abandon_operations(peer);
    ring_all();
    return;
  }
  PeerState alive = PeerState::alive;
  node.state.compare_exchange_strong(alive, PeerState::dead);
  close_connection(node);
  forget_pushes(peer);
  abandon_operations(peer);
  node.outbox.clear();
  for (auto& lane : send_lanes_)
    if (lane != nullptr && lane->peer == peer) close_lane(*lane);
  for (auto& lane : receive_lanes_)
    if (lane != nullptr && lane->peer == peer) lane->closed = true;
  ring_all();
  poll_locked();
}

void OfiFabric::leave() noexcept {
  // An answer says that the peer has everything: only then may the connection be closed, as closing
  // it can take back what is still on its way. A peer that leaves at the same time answers too.
  const auto open = [](const PeerNode& node) {
    return node.said_goodbye && !node.farewell &&
           node.state.load(std::memory_order_relaxed) != PeerState::dead;
  };
  const std::lock_guard lock(lock_);
  leaving_ = true;
  send_all_held();
  for (int peer = 0; peer < job_.size(); ++peer) {
    PeerNode& node = this->node(peer);
    if (node.handle == FI_ADDR_NOTAVAIL ||
        node.state.load(std::memory_order_relaxed) != PeerState::alive)
      continue;
    Control goodbye{};
    goodbye.type = Type::goodbye;
    node.said_goodbye = true;
    send(peer, goodbye);
    watch(peer);
  }
  const std::uint64_t limit = now_ns() + timeout_ns_;
  while (now_ns() < limit && (!full_outboxes_.empty() || !holding_.empty() ||
                              std::any_of(peers_.begin(), peers_.end(), open))) {
    poll_locked();
    sched_yield();
  }
}

}  // namespace weft::ofi
