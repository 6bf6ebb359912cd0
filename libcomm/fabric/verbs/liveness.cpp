// Peers that are lost or leave.
//
// A process that ends, however, closes its connections in the kernel, which tells the other end
// (DISCONNECTED). A host that goes away says nothing: its peers' requests are repeated by the
// device for up to half of WEFT_PEER_TIMEOUT_MS, and then the queue pair fails (retry exceeded). If
// there are no requests, state() sends one of no bytes now and then, which the peer's device
// acknowledges without its processor. In every case the rest of the time, less an eighth, goes to
// making another queue pair (mending.cpp); only when that is refused or fails the peer is lost.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>

#include "base/log.hpp"
#include "fabric/verbs/impl.hpp"

namespace weft::verbs {

// The connection is of no more use. Requests in the send queue end with errors one by one, what
// waits for room ends at once. With poll_lock_ held, or setup_ while it is in the making.
void VerbsFabric::fail(Connection& connection, std::string_view why, LogLevel level) noexcept {
  {
    const std::lock_guard lock(connection.lock);
    if (connection.state == Connection::failed) return;
    connection.why = why;
    connection.state.store(Connection::failed, std::memory_order_release);
    if (connection.qp != nullptr) put_in_error_state(connection.qp);
  }
  drop_parts(connection);
  if (connection.qp == nullptr) drop_posted(connection);  // there is nothing that would flush it
  if (!connection.peer_left.load(std::memory_order_relaxed) &&
      !leaving_.load(std::memory_order_relaxed))
    log_line(level, job_.rank(), "the connection with {} is lost: {}", both_ends(connection.peer),
             why);
  ring_all();
}

// With poll_lock_ and setup_ held: after this the device does nothing more for this peer.
void VerbsFabric::end_connection(Connection& connection, std::string_view why,
                                 LogLevel level) noexcept {
  const auto state = connection.state.load(std::memory_order_relaxed);
  if (state == Connection::asking || state == Connection::waiting || state == Connection::answering)
    num_asking_.fetch_sub(1, std::memory_order_relaxed);
  fail(connection, why, level);
  end_attempt(connection);
  drop_parts(connection);
  drop_posted(connection);
}

// Ends the operations in a send queue whose queue pair is gone.
void VerbsFabric::drop_posted(Connection& connection) noexcept {
  if (connection.log == nullptr) return;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    Operation* finished = nullptr;
    {
      const std::lock_guard lock(connection.lock);
      Operation* operation = std::exchange(connection.log[i].operation, nullptr);
      if (operation != nullptr && part_done(connection, *operation, Code::peer_lost))
        finished = operation;
    }
    if (finished != nullptr) end_operation(*finished);
  }
}

void VerbsFabric::disconnect(int peer) noexcept {
  if (!reaches(peer)) return;
  const std::lock_guard poll(poll_lock_);
  const std::lock_guard lock(setup_);
  end_connection(at(peer), "closed by this process");
}

void VerbsFabric::probe(Connection& connection, std::uint64_t now) noexcept {
  if (now - connection.heard_ns.load(std::memory_order_relaxed) < probe_after_ns_) return;
  const std::lock_guard lock(connection.lock);
  if (connection.state.load(std::memory_order_relaxed) != Connection::ready) return;
  if (connection.probing) {
    // Devices have been seen that neither repeat a request nor give it up: rxe after its link was
    // down.
    if (now - connection.probe_ns > repeats_ns_ + repeats_ns_ / 4)
      note_break(connection, Connection::stalled);
    return;
  }
  connection.probing = true;  // until any request of ours is acknowledged
  connection.probe_ns = now;
  if (connection.room() <= kKeptBack) return;  // there are signalled ones among so many
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  (void)post_request(connection, request, nullptr);
}

// What is under way must end even if nobody asks for the peer's state. With poll_lock_ held.
void VerbsFabric::look_after_peers(std::uint64_t now) noexcept {
  if (now - looked_ns_ < probe_after_ns_ / 4) return;
  looked_ns_ = now;
  const auto is_under_way = [](Connection& connection) {
    const std::lock_guard lock(connection.lock);
    return connection.posted != connection.done || !connection.parts.empty() ||
           !connection.changes.empty() ||
           std::any_of(connection.regions.begin(), connection.regions.end(),
                       [](const auto& entry) { return !entry.second.waiting.empty(); });
  };
  for (Connection& connection : connections_)
    if (connection.state.load(std::memory_order_relaxed) == Connection::ready &&
        is_under_way(connection))
      probe(connection, now);
}

PeerState VerbsFabric::state(int peer) noexcept {
  if (!reaches(peer)) return PeerState::alive;
  Connection& connection = at(peer);
  // acquire: what it wrote before it left has arrived; pairs with the release in on_control.
  if (connection.peer_left.load(std::memory_order_acquire)) return PeerState::left;
  switch (connection.state.load(std::memory_order_acquire)) {
    case Connection::failed:
      return PeerState::dead;
    case Connection::ready:
      probe(connection, now_ns());
      return PeerState::alive;
    case Connection::idle: {
      const std::lock_guard lock(setup_);
      begin_connecting(connection);
      return PeerState::alive;
    }
    default:
      return PeerState::alive;
  }
}

void VerbsFabric::leave() noexcept {
  leaving_.store(true, std::memory_order_relaxed);
  for (Connection& connection : connections_)
    send_control(connection, {ControlKind::goodbye, {}, 0, 0, 0, 0, 0, 0});
  // What was sent is delivered only once the other device has acknowledged it.
  const std::uint64_t limit = now_ns() + peer_timeout_ns_;
  for (Connection& connection : connections_) {
    const auto gone = [&] {
      const std::lock_guard lock(connection.lock);
      if (connection.mending) return connection.state == Connection::failed;
      return connection.state != Connection::ready ||
             (connection.controls.empty() && connection.parts.empty() &&
              connection.posted == connection.done);
    };
    while (!gone() && now_ns() < limit) poll();
  }
}

}  // namespace weft::verbs
