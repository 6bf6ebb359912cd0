// Links that break and come back. A queue pair does not outlive a break: the device gives a request
// up after its repeats, and rxe at once when its host has no route to the other. So the connection
// is made anew, as at first (connect.cpp), within what is left of WEFT_PEER_TIMEOUT_MS, less an
// eighth, and goes on where it was. Nothing is lost or doubled because
//
// - every request stays in Connection::log until it is known to be done;
// - a queue pair is first put into its error state, then everything that had arrived is taken out
//   of the completion queue; only after that each side tells the other how many of its messages
//   (the requests that take a receive: writes into rings with their count, and control messages)
//   have arrived. Requests of a queue pair are done in order, so what lies before the last message
//   that arrived is done, and what lies behind it is posted again, in order;
// - of what is posted again without being a message, part may have been done: a read or a write of
//   the same bytes, which can be done twice, because its operation has not ended yet.
//
// An atomic operation of the device cannot be repeated, and its result is lost with the queue pair.
// If one is under way the peer counts as lost.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/log.hpp"
#include "base/wait.hpp"
#include "fabric/verbs/impl.hpp"

namespace weft::verbs {
namespace {

std::string_view text_of(Connection::Break why) {
  switch (why) {
    case Connection::hung_up:
      return "it hung up";
    case Connection::unanswered:
      return "it does not acknowledge (process or host gone, cable, or a network that drops)";
    case Connection::stalled:
      return "neither an acknowledgement nor an error comes";
    case Connection::asked_anew:
      return "it connects anew";
    case Connection::not_taken:
      return "the device takes no request";
    default:
      return "the device cannot send to it";
  }
}

}  // namespace

// Any thread.
void VerbsFabric::note_break(Connection& connection, Connection::Break why) noexcept {
  std::uint8_t none = Connection::none;
  if (connection.break_.compare_exchange_strong(none, why, std::memory_order_relaxed))
    any_broken_.store(true, std::memory_order_relaxed);
}

// With poll_lock_ held and nothing else.
void VerbsFabric::mend_broken() noexcept {
  any_broken_.store(false, std::memory_order_relaxed);
  for (Connection& connection : connections_) {
    const auto why = static_cast<Connection::Break>(connection.break_.load());
    if (why == Connection::none) continue;
    mend(connection, why);
    connection.break_.store(Connection::none, std::memory_order_relaxed);
  }
}

// All that the completion queue holds by now, and not what other peers add meanwhile: they may
// never pause. With poll_lock_ held.
void VerbsFabric::take_completions() noexcept {
  for (int left = queue_->cqe, taken = 1; left > 0 && taken > 0; left -= taken)
    taken = poll_completions();
}

void VerbsFabric::mend(Connection& connection, Connection::Break why) noexcept {
  const std::uint64_t now = now_ns();
  Connection::State before{};
  std::uint32_t qp_number = 0;
  {
    const std::lock_guard lock(setup_);
    before = connection.state;
    if (before == Connection::failed) {
      end_attempt(connection);
      return drop_posted(connection);
    }
    if (before != Connection::ready && before != Connection::answering) return;
    const std::lock_guard guard(connection.lock);
    connection.state.store(Connection::waiting, std::memory_order_release);
    connection.mending.store(true, std::memory_order_relaxed);
    connection.broke = text_of(why);
    if (const int error = std::exchange(connection.post_error, 0); error != 0)
      connection.broke += fmt::format(": {}", std::strerror(error));
    qp_number = connection.qp_number;
    put_in_error_state(connection.qp);
  }
  // Devices forget the completions of a queue pair that is destroyed, or bring some until then.
  take_completions();
  {
    const std::lock_guard lock(setup_);
    end_attempt(connection);
    connection.qp_number = qp_number;
  }
  take_completions();
  const std::lock_guard lock(setup_);
  connection.qp_number = 0;
  if (connection.state == Connection::failed) return drop_posted(connection);
  if (before == Connection::ready) {
    // From when it was last heard, unless nobody has listened since: then from when it could have
    // been missed. A link on which nothing has come through since the last time is the same break
    // still.
    const std::uint64_t asked = why == Connection::unanswered ? now - repeats_ns_
                                : connection.probing          ? connection.probe_ns
                                                              : now;
    const std::uint64_t silent = std::max(connection.heard_ns.load(), asked - probe_after_ns_);
    if (connection.mend_deadline_ns == 0)
      connection.mend_deadline_ns = std::max(silent + patience_ns_, now + peer_timeout_ns_ / 4);
    connection.deadline_ns = connection.mend_deadline_ns;
  } else {
    num_asking_.fetch_sub(1, std::memory_order_relaxed);
  }
  if (connection.peer_left.load(std::memory_order_relaxed))
    return fail(connection, "its process has ended");
  if (now >= connection.deadline_ns)
    return fail(connection, fmt::format("{}, again and again", connection.broke));
  for (std::uint32_t i = connection.done; i != connection.posted; ++i)
    if (connection.log[i % kSlots].is_atomic())
      return fail(connection, fmt::format("{}, during an atomic operation, and nobody can say "
                                          "whether that was done",
                                          connection.broke));
  log_line(LogLevel::info, job_.rank(), "the connection with {} broke: {}",
           both_ends(connection.peer), connection.broke);
  num_asking_.fetch_add(1, std::memory_order_relaxed);
  ask(connection);
}

// With the connection's lock held, ready on a new queue pair. What is wrong, if anything.
std::string VerbsFabric::replay(Connection& connection) noexcept {
  const std::uint32_t begin = connection.done, end = connection.posted;
  std::uint32_t missing = 0;
  std::uint32_t arrived = end;  // the first request of which nobody knows
  while (arrived != begin) {
    const Posted& record = connection.log[(arrived - 1) % kSlots];
    if (record.is_message()) {
      if (static_cast<std::int32_t>(record.message - connection.peer_received) <= 0) break;
      ++missing;
    }
    --arrived;
  }
  if (connection.messages - connection.peer_received != missing)
    return "it counts messages otherwise";

  std::vector<Posted> again;
  for (std::uint32_t i = begin; i != end; ++i) {
    Posted& record = connection.log[i % kSlots];
    const bool is_done = static_cast<std::int32_t>(i - arrived) < 0 && !record.is_read();
    if (!is_done && (record.is_message() || record.bytes != 0)) {
      again.push_back(record);
    } else if (record.operation != nullptr && part_done(connection, *record.operation, Code::ok)) {
      end_operation(*record.operation);
    }
    record.operation = nullptr;
  }
  connection.done = connection.posted;
  connection.unsignalled = 0;
  connection.reads = 0;
  connection.read_bytes = 0;
  connection.messages = connection.peer_received;
  for (Posted& record : again) {
    ibv_sge piece{record.here, record.bytes, record.lkey};
    ibv_send_wr request{};
    request.opcode = record.opcode;
    if (record.opcode == IBV_WR_SEND)
      piece.addr = reinterpret_cast<std::uintptr_t>(&record.control);
    if (record.bytes != 0) {
      request.sg_list = &piece;
      request.num_sge = 1;
    }
    if (record.inlined) request.send_flags = IBV_SEND_INLINE;
    request.imm_data = record.immediate;
    request.wr.rdma = {record.there, record.rkey};
    (void)post_request(connection, request, record.operation);
  }
  for (ClosedMirror& mirror : closed_mirrors_)
    if (mirror.connection == &connection) mirror.until = connection.posted;
  if (connection.post_error == 0) return {};
  return fmt::format("the device takes no request, not even again: {}",
                     std::strerror(connection.post_error));
}

// With poll_lock_ held.
void VerbsFabric::came_through(Connection& connection) noexcept {
  connection.mend_deadline_ns = 0;
  log_line(LogLevel::info, job_.rank(), "the connection with {} works again",
           both_ends(connection.peer));
}

// A message of the peer has arrived. With poll_lock_ held.
void VerbsFabric::count_message(Connection& connection) noexcept {
  ++connection.received;
  if (connection.mend_deadline_ns != 0 && connection.state == Connection::ready) [[unlikely]]
    came_through(connection);
  // It has our acceptance, or it would not send: the network lost the message that says so, for
  // which the kernel would wait until it gives the connection up.
  if (connection.state.load(std::memory_order_relaxed) == Connection::answering) [[unlikely]] {
    const std::lock_guard lock(setup_);
    (void)rdma_notify(connection.id, IBV_EVENT_COMM_EST);
    become_ready(connection);
  }
}

Connection* VerbsFabric::connection_of(std::uint32_t qp_number) noexcept {
  for (Connection& connection : connections_)
    if (connection.qp_number == qp_number) return &connection;
  return nullptr;
}

}  // namespace weft::verbs
