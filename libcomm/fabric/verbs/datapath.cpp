// The hot path: posting into the send queues, and what completes.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "fabric/verbs/impl.hpp"

namespace weft::verbs {
namespace {

constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;
constexpr int kBatch = 32;
// An empty queue is looked at again before everything else that is polled: that costs a fraction of
// a round through all of it.
constexpr int kLooks = 4;
constexpr int kMaxBatches = 8;  // in one poll, so that one busy peer does not hold up everything
// How many polls pass between two looks at what is not the completion queue: a system call each.
constexpr std::uint32_t kEventPeriod = 256;
constexpr std::uint32_t kEventPeriodAsking = 8;
// Polls in vain, and then the longest sleep; others who are polled for may wait so long.
constexpr int kIdlePolls = 4;
constexpr long kMakeWayNs = 300'000;

// What every request has, of a structure of which most is for kinds of requests that are not made
// here. (Clearing its 128 bytes takes longer than all the rest.)
void prepare(ibv_send_wr& request, ibv_wr_opcode opcode, ibv_sge* piece) noexcept {
  request.next = nullptr;
  request.sg_list = piece;
  request.num_sge = piece != nullptr ? 1 : 0;
  request.opcode = opcode;
  request.send_flags = 0;
  request.imm_data = 0;
}

ibv_wr_opcode opcode_of(Operation::Kind kind) noexcept {
  switch (kind) {
    case Operation::read:
      return IBV_WR_RDMA_READ;
    case Operation::write:
      return IBV_WR_RDMA_WRITE;
    case Operation::cas:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Operation::add:
      break;
  }
  return IBV_WR_ATOMIC_FETCH_AND_ADD;
}

}  // namespace

// With the connection's lock held and room in the send queue. `operation`: completes with this
// request. Unsignalled requests leave the queue with the next signalled one. again: not ready,
// which does not change while the lock is held, so of several requests only the first may be told
// so.
//
// A request that the device does not take, and all behind it, is on the log as if it were posted:
// it goes out on the queue pair that takes this one's place.
Code VerbsFabric::post_request(Connection& connection, ibv_send_wr& request,
                               Operation* operation) noexcept {
  if (connection.state.load(std::memory_order_relaxed) != Connection::ready) return Code::again;
  const std::uint32_t number = connection.posted;
  request.wr_id = std::uint64_t{static_cast<std::uint32_t>(connection.peer)} << 32 | number;
  if (operation != nullptr || connection.unsignalled + 1 >= kSignalEvery)
    request.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (connection.post_error == 0)
    connection.post_error = ibv_post_send(connection.qp, &request, &bad);
  if (connection.post_error != 0) [[unlikely]]
    note_break(connection, Connection::not_taken);
  connection.unsignalled =
      (request.send_flags & IBV_SEND_SIGNALED) != 0 ? 0 : connection.unsignalled + 1;
  ++connection.posted;
  Posted& record = connection.log[number % kSlots];
  record.operation = operation;
  record.opcode = request.opcode;
  record.inlined = (request.send_flags & IBV_SEND_INLINE) != 0;
  record.bytes = 0;
  if (request.num_sge != 0) {
    record.here = request.sg_list->addr;
    record.bytes = request.sg_list->length;
    record.lkey = request.sg_list->lkey;
  }
  if (request.opcode == IBV_WR_SEND) {
    std::memcpy(&record.control, reinterpret_cast<const void*>(record.here), sizeof(Control));
  } else if (!record.is_atomic()) {  // those are not repeated
    record.there = request.wr.rdma.remote_addr;
    record.rkey = request.wr.rdma.rkey;
    record.immediate = request.imm_data;
  }
  if (record.is_message()) record.message = ++connection.messages;
  if (record.is_read()) {
    ++connection.reads;
    connection.read_bytes += record.bytes;
  }
  return Code::ok;
}

bool VerbsFabric::post_control(Connection& connection, const Control& control) noexcept {
  if (connection.room() == 0) return false;
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(&control), sizeof control, 0};
  ibv_send_wr request;
  prepare(request, IBV_WR_SEND, &piece);
  request.send_flags = IBV_SEND_INLINE;
  // Somebody waits for the end of these.
  if (control.kind == ControlKind::goodbye || control.kind == ControlKind::closed)
    request.send_flags |= IBV_SEND_SIGNALED;
  return post_request(connection, request, nullptr) == Code::ok;
}

bool VerbsFabric::post_part(Connection& connection, const Part& part) noexcept {
  ibv_sge piece{part.here, static_cast<std::uint32_t>(part.bytes), part.lkey};
  ibv_send_wr request;
  prepare(request, opcode_of(part.operation->kind), &piece);
  if (part.operation->kind == Operation::cas || part.operation->kind == Operation::add) {
    const bool adds = part.operation->kind == Operation::add;
    request.wr.atomic = {part.there, adds ? part.value : part.compare, adds ? 0 : part.value,
                         part.rkey};
  } else {
    request.wr.rdma = {part.there, part.rkey};
  }
  return post_request(connection, request, part.operation) == Code::ok;
}

// With the connection's lock taken here: what waited for room, control messages first.
void VerbsFabric::push(Connection& connection) noexcept {
  const std::lock_guard lock(connection.lock);
  if (connection.state.load(std::memory_order_relaxed) != Connection::ready) return;
  while (!connection.controls.empty() && post_control(connection, connection.controls.front()))
    connection.controls.pop_front();
  const bool loops_back = address_of(connection.peer).loops_back;
  while (!connection.parts.empty() && connection.room() > kKeptBack) {
    const Part& part = connection.parts.front();
    const bool reads = part.operation->kind != Operation::write;
    // More reads than the peer answers at once would hold up the writes behind them.
    if (reads && (connection.reads >= connection.read_depth ||
                  (loops_back && connection.read_bytes + part.bytes > kLoopReadMax)))
      break;
    if (!post_part(connection, part)) break;
    connection.parts.pop_front();
  }
}

Code VerbsFabric::post(void* handle, std::size_t offset, std::size_t bytes) noexcept {
  auto& lane = *static_cast<WriteLane*>(handle);
  Connection& connection = *lane.connection;
  // acquire: pairs with the release in become_ready.
  if (connection.state.load(std::memory_order_acquire) != Connection::ready)
    return connection.state == Connection::failed ? Code::peer_lost : Code::again;
  if (bytes == 0) return Code::ok;
  const std::size_t end = offset + bytes;
  // acquire: the chunk's key; pairs with the release in on_grown.
  const int ready = lane.ready_chunks.load(std::memory_order_acquire);
  if (ready < lane.mirror.num_chunks && lane.asked_chunks.load(std::memory_order_relaxed) == ready)
      [[unlikely]] {
    const bool needed = end > lane.mirror.chunks[ready - 1].end;
    // The step from an idle lane to one in use is foreseen, later ones are the ring's growth.
    if (needed || (ready == 1 && end > kFirstChunk / 2)) {
      if (Status status = lane.mirror.register_chunk(*registrations_, ready, 0); !status) {
        log_line(LogLevel::error, job_.rank(), "a ring for {} cannot grow: {}",
                 job_.describe(connection.peer), status.text());
        // What is in the ring already can be sent no more: nothing may follow it.
        const std::lock_guard lock(poll_lock_);
        fail(connection, "a ring for it cannot grow");
        return Code::peer_lost;
      }
      // release: the chunk's registration; pairs with the acquire in on_grown.
      lane.asked_chunks.store(ready + 1, std::memory_order_release);
      send_control(
          connection,
          {ControlKind::grow, {}, 0, lane.peer_number, static_cast<std::uint32_t>(ready), 0, 0, 0});
    }
  }
  if (end > lane.mirror.chunks[ready - 1].end) return Code::again;

  const std::lock_guard lock(connection.lock);
  int first = 0;
  while (lane.mirror.chunks[first].end <= offset) ++first;
  int last = first;
  while (lane.mirror.chunks[last].end < end) ++last;
  std::size_t lines = bytes / kLineBytes;
  const std::size_t extra = (lines - 1) / kMaxLines;
  if (!connection.controls.empty() ||
      connection.room() < static_cast<std::size_t>(last - first) + 1 + extra + kKeptBack)
    return Code::again;
  ibv_send_wr request;
  for (std::size_t i = 0; i < extra; ++i, lines -= kMaxLines) {
    // Counts without bytes; they take effect with the last one.
    prepare(request, IBV_WR_RDMA_WRITE_WITH_IMM, nullptr);
    request.imm_data = htonl(immediate(lane.peer_number, 0));
    request.wr.rdma = {lane.peer_address, lane.mirror.chunks[0].peer_key};
    if (post_request(connection, request, nullptr) != Code::ok) return Code::again;
  }
  for (int i = first; i <= last; ++i) {
    const Chunk& chunk = lane.mirror.chunks[i];
    const std::size_t begin = std::max<std::size_t>(offset, chunk.begin);
    const std::size_t stop = std::min<std::size_t>(end, chunk.end);
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(lane.mirror.base) + begin,
                  static_cast<std::uint32_t>(stop - begin), chunk.mr->lkey};
    prepare(request, i == last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, &piece);
    if (i == last) request.imm_data = htonl(immediate(lane.peer_number, lines));
    if (stop - begin <= max_inline_) request.send_flags = IBV_SEND_INLINE;
    request.wr.rdma = {lane.peer_address + begin, chunk.peer_key};
    if (post_request(connection, request, nullptr) != Code::ok) return Code::again;
  }
  return Code::ok;
}

Code VerbsFabric::return_credit(void* handle, std::uint64_t word) noexcept {
  auto& lane = *static_cast<ReadLane*>(handle);
  Connection& connection = *lane.connection;
  if (connection.state.load(std::memory_order_acquire) != Connection::ready)
    return connection.state == Connection::failed ? Code::peer_lost : Code::again;
  const Control control{ControlKind::credit,
                        {},
                        static_cast<std::uint32_t>(job_.rank()),
                        lane.peer_number,
                        0,
                        word,
                        0,
                        0};
  const std::lock_guard lock(connection.lock);
  if (!connection.controls.empty()) return Code::again;
  return post_control(connection, control) ? Code::ok : Code::again;
}

void VerbsFabric::flush_receives() noexcept {
  if (num_returned_ == 0) return;
  ibv_recv_wr requests[kBatch];
  ibv_sge pieces[kBatch];
  for (int i = 0; i < num_returned_; ++i) {
    pieces[i] = {reinterpret_cast<std::uintptr_t>(receive_memory_) + returned_[i] * sizeof(Control),
                 sizeof(Control), receive_mr_->lkey};
    requests[i].wr_id = kReceiveBit | returned_[i];
    requests[i].sg_list = &pieces[i];
    requests[i].num_sge = 1;
    requests[i].next = i + 1 < num_returned_ ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  if (ibv_post_srq_recv(receives_, requests, &bad) != 0)
    log_line(LogLevel::error, job_.rank(), "the shared receive queue takes no more: {}",
             std::strerror(errno));
  num_returned_ = 0;
}

void VerbsFabric::post_receive(std::uint64_t index) noexcept {
  returned_[num_returned_++] = index;
  if (num_returned_ == kBatch) flush_receives();
}

// A peer has written into one of our rings.
void VerbsFabric::on_written(const ibv_wc& wc) noexcept {
  const std::uint32_t word = ntohl(wc.imm_data);
  const std::uint32_t number = word >> 16;
  const std::uint32_t lines = word & 0xffff;
  ReadLane* lane = number < readers_.size() ? readers_[number].get() : nullptr;
  Connection* connection = lane != nullptr && lane->connection->qp_number == wc.qp_num
                               ? lane->connection
                               : connection_of(wc.qp_num);
  if (connection == nullptr) return;
  count_message(*connection);
  if (lane == nullptr || lane->connection != connection) return;
  if (lines == 0) {
    lane->pending_bytes += kMaxLines * kLineBytes;
    return;
  }
  // release: the completion says that all bytes up to here are visible; pairs with the acquire of
  // the lane's reader.
  lane->arrived.store(
      lane->arrived.load(std::memory_order_relaxed) + lane->pending_bytes + lines * kLineBytes,
      std::memory_order_release);
  lane->pending_bytes = 0;
  ring_own(reader_doorbell(lane->channel));
}

// A request of ours has left its send queue.
void VerbsFabric::on_sent(const ibv_wc& wc) noexcept {
  const auto peer = static_cast<std::uint32_t>(wc.wr_id >> 32);
  if (peer >= connections_.size()) return;
  Connection& connection = connections_[peer];
  if (connection.qp_number != wc.qp_num) return;
  const auto number = static_cast<std::uint32_t>(wc.wr_id);
  if (wc.status != IBV_WC_SUCCESS) {
    const auto state = connection.state.load(std::memory_order_relaxed);
    // rxe's word for "no route to the host", which it gives at once when a link goes down, is
    // LOC_QP_OP_ERR.
    const auto why = wc.status == IBV_WC_RETRY_EXC_ERR ? Connection::unanswered
                     : wc.status == IBV_WC_LOC_QP_OP_ERR || wc.status == IBV_WC_WR_FLUSH_ERR
                         ? Connection::device_error
                         : Connection::none;
    if (state != Connection::failed && why != Connection::none)
      return note_break(connection, why);  // what is in the queue stays in the log
    if (state != Connection::failed && connection.break_ != Connection::none) return;
  }
  Operation* finished = nullptr;
  {
    const std::lock_guard lock(connection.lock);
    Posted& record = connection.log[number % kSlots];
    Operation* operation = std::exchange(record.operation, nullptr);
    connection.done = number + 1;
    connection.probing = false;
    if (operation != nullptr) {
      if (record.is_read()) {
        --connection.reads;
        connection.read_bytes -= record.bytes;
      }
      if (part_done(connection, *operation,
                    wc.status == IBV_WC_SUCCESS ? Code::ok : Code::peer_lost))
        finished = operation;
    }
  }
  // First: who sees that its operation has ended with the peer finds it dead.
  if (wc.status != IBV_WC_SUCCESS)
    fail(connection, wc.status == IBV_WC_REM_ACCESS_ERR
                         ? "it refuses an access to memory that it does not share"
                         : ibv_wc_status_str(wc.status));
  if (finished != nullptr) end_operation(*finished);
  if (wc.status != IBV_WC_SUCCESS) return;
  connection.heard_ns.store(now_ns(), std::memory_order_relaxed);
  if (connection.mend_deadline_ns != 0) [[unlikely]]
    came_through(connection);
  if (!connection.parts.empty() || !connection.controls.empty()) push(connection);
}

void VerbsFabric::on_completion(const ibv_wc& wc) noexcept {
  if ((wc.wr_id & kReceiveBit) == 0) return on_sent(wc);
  const std::uint64_t index = wc.wr_id & ~kReceiveBit;
  if (wc.status == IBV_WC_SUCCESS) {
    if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
      on_written(wc);
    } else if (wc.byte_len == sizeof(Control)) {
      Control control;
      std::memcpy(&control, receive_memory_ + index * sizeof control, sizeof control);
      on_control(control, wc.qp_num);
    }
  }
  post_receive(index);
}

// How many there were.
int VerbsFabric::poll_completions() noexcept {
  ibv_wc completions[kBatch];
  int all = 0;
  for (int batch = 0; batch < kMaxBatches; ++batch) {
    int count = ibv_poll_cq(queue_, kBatch, completions);
    for (int look = 1; count == 0 && batch == 0 && look < kLooks; ++look)
      count = ibv_poll_cq(queue_, kBatch, completions);
    for (int i = 0; i < count; ++i) on_completion(completions[i]);
    all += std::max(count, 0);
    if (count < kBatch) break;
  }
  return all;
}

// A device in software moves bytes with the processor for which polling competes: while it has much
// to move, or there is no other processor, who waits for it sleeps a little.
void VerbsFabric::make_way() noexcept {
  if (!arm()) return;
  pollfd completed{completion_channel_->fd, POLLIN, 0};
  const timespec limit{0, kMakeWayNs};
  (void)ppoll(&completed, 1, &limit, nullptr);
}

void VerbsFabric::poll() noexcept {
  std::unique_lock lock(poll_lock_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // somebody does it
  if (poll_completions() > 0) {
    idle_polls_ = 0;
  } else if (device_->is_software &&
             (only_processor_ || num_bulk_.load(std::memory_order_relaxed) > 0) &&
             ++idle_polls_ >= kIdlePolls) {
    idle_polls_ = 0;
    lock.unlock();
    make_way();
    if (!lock.try_lock()) return;
    poll_completions();
  }
  const bool woken =
      armed_.load(std::memory_order_relaxed) && armed_.exchange(false, std::memory_order_relaxed);
  if (woken) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    unsigned count = 0;
    while (ibv_get_cq_event(completion_channel_, &queue, &context) == 0) ++count;
    if (count > 0) ibv_ack_cq_events(queue_, count);
  }
  ++polls_;
  const bool asking = num_asking_.load(std::memory_order_relaxed) > 0;
  if (woken || polls_ % (asking ? kEventPeriodAsking : kEventPeriod) == 0) {
    poll_events();
    registrations_->collect();
  }
  if (any_broken_.load(std::memory_order_relaxed)) mend_broken();
  // Looked at first: an exchange takes the line from who writes beside it, in every poll.
  if (found_operation_.load(std::memory_order_relaxed) &&
      found_operation_.exchange(false, std::memory_order_relaxed))
    ring_all();
}

bool VerbsFabric::arm() noexcept {
  // Set first: whoever polls from here on takes the event out of the channel.
  armed_.store(true, std::memory_order_relaxed);
  (void)ibv_req_notify_cq(queue_, 0);
  // What completed before the notification was asked for is told by nobody.
  const std::unique_lock lock(poll_lock_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const bool any = poll_completions() > 0 || any_broken_.load(std::memory_order_relaxed);
  if (found_operation_.exchange(false, std::memory_order_relaxed)) ring_all();
  return !any;
}

}  // namespace weft::verbs
