// Posting what lanes have written, and polling for what has come.
#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/log.hpp"
#include "base/wait.hpp"
#include "fabric/doorbell.hpp"
#include "fabric/ofi/ofi.hpp"

namespace weft::ofi {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kCheckNs = 10'000'000;
constexpr int kBatch = 16;

}  // namespace

Code OfiFabric::post(void* opaque, std::size_t offset, std::size_t bytes) noexcept {
  auto& lane = *static_cast<SendLaneState*>(opaque);
  const std::lock_guard lock(lock_);
  PeerNode& peer = node(lane.peer);
  if (lane.state != SendLaneState::open || peer.handle == FI_ADDR_NOTAVAIL ||
      peer.state.load(std::memory_order_relaxed) != PeerState::alive)
    return Code::peer_lost;
  std::byte* from = lane.memory.data() + kPage + offset;
  const std::uint64_t data = immediate(lane.ring_lane, bytes);
  ssize_t error = 0;
  if (bytes <= inject_max_) {
    error = fi_inject_writedata(endpoint_->ep(), from, bytes, data, peer.handle,
                                lane.ring_address + offset, lane.ring_key);
  } else {
    iovec local{from, bytes};
    const fi_rma_iov remote{lane.ring_address + offset, bytes, lane.ring_key};
    fi_msg_rma message{};
    message.msg_iov = &local;
    message.desc = lane.descriptor != nullptr ? &lane.descriptor : nullptr;
    message.iov_count = 1;
    message.addr = peer.handle;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = &lane.context;
    message.data = data;
    error = fi_writemsg(endpoint_->ep(), &message, FI_REMOTE_CQ_DATA);
  }
  if (error == -FI_EAGAIN) return Code::again;
  if (error != 0) {
    lose(lane.peer, fi_strerror(static_cast<int>(-error)));
    return Code::peer_lost;
  }
  peer.posted_bytes += bytes;
  return Code::ok;
}

Code OfiFabric::return_credit(void* opaque, std::uint64_t word) noexcept {
  auto& lane = *static_cast<ReceiveLaneState*>(opaque);
  const std::lock_guard lock(lock_);
  PeerNode& peer = node(lane.peer);
  if (lane.closed || peer.handle == FI_ADDR_NOTAVAIL ||
      peer.state.load(std::memory_order_relaxed) != PeerState::alive)
    return Code::peer_lost;
  const ssize_t error =
      fi_inject_writedata(endpoint_->ep(), &word, sizeof word, kCredit | lane.writer_lane,
                          peer.handle, lane.credit_address, lane.credit_key);
  if (error == -FI_EAGAIN) return Code::again;
  if (error != 0) {
    lose(lane.peer, fi_strerror(static_cast<int>(-error)));
    return Code::peer_lost;
  }
  return Code::ok;
}

void OfiFabric::on_immediate(std::uint32_t data) noexcept {
  const std::uint32_t kind = data & ~kNumberMask;
  if (kind == kGot) return on_got(data & kNumberMask);
  if (kind == kCredit) {
    const std::uint32_t number = data & kNumberMask;
    if (number >= send_lanes_.size() || send_lanes_[number] == nullptr) return;
    SendLaneState& lane = *send_lanes_[number];
    node(lane.peer).heard_ns = now_ns_;
    ring_doorbell(local_.sleeping(writer_doorbell(lane.channel)));
    return;
  }
  const std::uint32_t number = data >> 16;
  if (number >= receive_lanes_.size() || receive_lanes_[number] == nullptr) return;
  ReceiveLaneState& lane = *receive_lanes_[number];
  PeerNode& peer = node(lane.peer);
  const std::size_t bytes = (data & 0xffff) * kLine;
  peer.heard_ns = now_ns_;
  peer.arrived_bytes += bytes;
  // release: the bytes before the count; pairs with the acquire in ReceiveLane::peek.
  lane.arrived.store(lane.arrived.load(std::memory_order_relaxed) + bytes,
                     std::memory_order_release);
  ring_doorbell(local_.sleeping(reader_doorbell(lane.channel)));
}

void OfiFabric::post_receive(ReceiveBuffer& buffer) noexcept {
  buffer.context.kind = Context::receive;
  const ssize_t error = fi_recv(endpoint_->ep(), &buffer.control, sizeof buffer.control, nullptr,
                                FI_ADDR_UNSPEC, &buffer.context);
  if (error != 0)
    log_line(LogLevel::error, job_.rank(), "ofi: fi_recv: {}",
             fi_strerror(static_cast<int>(-error)));
}

void OfiFabric::poll() noexcept {
  // Whoever holds the lock does the same.
  if (!lock_.try_lock()) return;
  poll_locked();
  lock_.unlock();
}

void OfiFabric::poll_locked() noexcept {
  now_ns_ = now_ns();
  fi_cq_data_entry entries[kBatch];
  for (int round = 0; round < 16; ++round) {
    const ssize_t count = fi_cq_read(endpoint_->cq(), entries, kBatch);
    if (count == -FI_EAVAIL) {
      on_error();
      continue;
    }
    if (count <= 0) break;
    for (ssize_t i = 0; i < count; ++i) {
      const fi_cq_data_entry& entry = entries[i];
      if ((entry.flags & FI_REMOTE_CQ_DATA) != 0) {
        on_immediate(static_cast<std::uint32_t>(entry.data));
        continue;
      }
      auto* context = static_cast<Context*>(entry.op_context);
      if (context == nullptr) continue;
      if (context->kind == Context::receive) {
        auto& buffer = *reinterpret_cast<ReceiveBuffer*>(context);
        if (entry.len == sizeof buffer.control) on_control(buffer.control);
        post_receive(buffer);
      } else if (context->kind == Context::operation) {
        node(context->peer).heard_ns = now_ns_;
        finish(*reinterpret_cast<Operation*>(context), Code::ok);
      }
    }
    if (count < kBatch) break;
  }
  if (!full_outboxes_.empty()) flush_outboxes();
  if (!waiting_operations_.empty() || !waiting_pushes_.empty()) retry_operations();
  if (now_ns_ - checked_ns_ > kCheckNs) check_peers(now_ns_);
}

void OfiFabric::on_error() noexcept {
  fi_cq_err_entry error{};
  if (fi_cq_readerr(endpoint_->cq(), &error, 0) < 0) return;
  auto* context = static_cast<Context*>(error.op_context);
  if (context == nullptr) return;  // which peer it was shows as silence
  if (context->kind == Context::receive) {
    if (error.err != FI_ECANCELED) post_receive(*reinterpret_cast<ReceiveBuffer*>(context));
    return;
  }
  if (context->kind == Context::post) return lose(context->peer, fi_strerror(error.err));
  if (context->kind == Context::operation) {
    auto& operation = *reinterpret_cast<Operation*>(context);
    const int peer = operation.context.peer;
    // An access outside what the owner shares ends the connection, as far as providers over TCP go.
    finish(operation, error.err == FI_EACCES || error.err == FI_EKEYREJECTED ? Code::bad_argument
                                                                             : Code::peer_lost);
    lose(peer, fi_strerror(error.err));
  }
}

bool OfiFabric::arm() noexcept {
  const std::lock_guard lock(lock_);
  return endpoint_->try_wait();
}

}  // namespace weft::ofi
