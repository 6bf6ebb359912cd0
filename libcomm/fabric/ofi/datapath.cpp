// Posting what lanes have written, and polling for what has come.
#include <fmt/core.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "base/wait.hpp"
#include "fabric/ofi/library.hpp"
#include "fabric/ofi/ofi.hpp"
#include "fabric/watcher.hpp"

namespace weft::ofi {
namespace {

constexpr std::uint64_t kCheckNs = 10'000'000;
constexpr int kBatch = 16;
constexpr int kRounds = 16;  // batches of a poll
// As much is kept back at most.
constexpr std::size_t kHeldMax = 131072;
// Shorter data are copied faster than they are waited for; or than they are sent alone.
constexpr std::size_t kInPlaceMin = 8192;
constexpr std::size_t kInPlaceMinLater = 65536;
// What credit carries along with a multiple of lines.
constexpr std::uint64_t kFlags = kLine - 1;

}  // namespace

bool OfiFabric::is_open(const SendLaneState& lane) const noexcept {
  const PeerNode& peer = node(lane.peer);
  return lane.state == SendLaneState::open && peer.handle != FI_ADDR_NOTAVAIL &&
         peer.state.load(std::memory_order_relaxed) == PeerState::alive;
}

Code OfiFabric::post(void* opaque, std::size_t offset, std::size_t bytes) noexcept {
  const std::lock_guard lock(lock_);
  return post_locked(*static_cast<SendLaneState*>(opaque), offset, bytes);
}

// The second message in a row, with no poll between, is kept back, and those after it: together
// they are one system call of each side. The first is not, so that an answer is never late.
Code OfiFabric::post_later(void* opaque, std::size_t offset, std::size_t bytes) noexcept {
  auto& lane = *static_cast<SendLaneState*>(opaque);
  const std::lock_guard lock(lock_);
  if (watcher_ == nullptr || lane.ring_key == 0 || bytes >= kHeldMax)
    return post_locked(lane, offset, bytes);
  if (lane.held_bytes == 0 && lane.let_go_after != polls_) {
    lane.let_go_after = polls_;
    return post_locked(lane, offset, bytes);
  }
  if (!is_open(lane)) return Code::peer_lost;
  if (offset != lane.held_offset + lane.held_bytes || lane.held_bytes + bytes > kHeldMax) {
    if (const Code code = send_held(lane); code != Code::ok) return code;
  }
  if (lane.held_bytes == 0) {
    lane.held_offset = offset;
    holding_.push_back(&lane);
    holds_.store(true, std::memory_order_relaxed);
    watcher_->look_soon();
  }
  lane.held_bytes += bytes;
  return Code::ok;
}

Code OfiFabric::send_held(SendLaneState& lane) noexcept {
  if (lane.held_bytes == 0) return Code::ok;
  Code code = Code::peer_lost;
  if (is_open(lane)) {
    const iovec local{lane.mirror.data() + lane.held_offset, lane.held_bytes};
    code = write(lane, lane.held_offset, {&local, 1}, lane.held_bytes, nullptr);
    if (code == Code::again) return code;
  }
  forget_held(lane);
  return code;
}

void OfiFabric::forget_held(SendLaneState& lane) noexcept {
  lane.held_bytes = 0;
  std::erase(holding_, &lane);
  holds_.store(!holding_.empty(), std::memory_order_relaxed);
}

void OfiFabric::send_all_held() noexcept {
  // From the last, as each that goes leaves the list.
  for (std::size_t i = holding_.size(); i-- > 0;) (void)send_held(*holding_[i]);
}

bool OfiFabric::push() noexcept {
  if (!holds_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(lock_);
  send_all_held();
  return true;
}

void OfiFabric::set_watcher(Watcher* watcher) noexcept {
  const std::lock_guard lock(lock_);
  watcher_ = watcher;
}

Code OfiFabric::post_locked(SendLaneState& lane, std::size_t offset, std::size_t bytes) noexcept {
  if (!is_open(lane)) return Code::peer_lost;
  if (const Code code = send_held(lane); code != Code::ok) return code;
  std::byte* from = lane.mirror.data() + offset;
  if (lane.ring_key != 0) {
    const iovec local{from, bytes};
    return write(lane, offset, {&local, 1}, bytes, nullptr);
  }
  PeerNode& peer = node(lane.peer);
  // After "again" the caller comes back with the same start.
  std::size_t done = lane.part_offset == offset ? lane.part_done : 0;
  lane.part_done = 0;
  while (done < bytes) {
    const std::size_t part = std::min(bytes - done, part_max_);
    const long error = post_part(lane, offset + done, part);
    if (error == -FI_EAGAIN) {
      lane.part_offset = offset;
      lane.part_done = done;
      return Code::again;
    }
    if (error != 0) {
      lose(lane.peer, error_text(error));
      return Code::peer_lost;
    }
    peer.posted_bytes += part;
    done += part;
  }
  return Code::ok;
}

long OfiFabric::post_part(SendLaneState& lane, std::size_t offset, std::size_t bytes) noexcept {
  PeerNode& peer = node(lane.peer);
  std::byte* from = lane.mirror.data() + offset;
  const std::uint64_t data = immediate(lane.token, lane.ring_lane, offset);
  if (bytes <= inject_max_) return fi_injectdata(endpoint_->ep(), from, bytes, data, peer.handle);
  const iovec local{from, bytes};
  void* descriptor = lane.registration.mr != nullptr ? fi_mr_desc(lane.registration.mr) : nullptr;
  fi_msg message{};
  message.msg_iov = &local;
  message.desc = descriptor != nullptr ? &descriptor : nullptr;
  message.iov_count = 1;
  message.addr = peer.handle;
  message.context = &peer.context;
  message.data = data;
  return fi_sendmsg(endpoint_->ep(), &message, FI_REMOTE_CQ_DATA);
}

// Has the provider write `local`, entries of `bytes` in all, into the ring. Credit for the lane the
// other way round goes along, so that in both directions at once it takes no message of its own.
// push: told its end; null: nobody waits for it.
Code OfiFabric::write(SendLaneState& lane, std::size_t offset, std::span<const iovec> local,
                      std::size_t bytes, Push* push) noexcept {
  PeerNode& peer = node(lane.peer);
  // acquire: its reader is done with what it counted, and the peer may write there; pairs with the
  // release in RingReader::share_credit.
  const std::uint64_t consumed =
      lane.back != nullptr ? lane.back->consumed.load(std::memory_order_acquire) : 0;
  const std::uint64_t data =
      immediate_of_write({lane.token, lane.restarts, static_cast<std::uint16_t>(bytes / kLine),
                          static_cast<std::uint16_t>(consumed / kLine)});
  ssize_t error = 0;
  if (push == nullptr && local.size() == 1 && bytes <= inject_max_) {
    error = fi_inject_writedata(endpoint_->ep(), local[0].iov_base, bytes, data, peer.handle,
                                lane.ring_address + offset, lane.ring_key);
  } else {
    fi_rma_iov remote{lane.ring_address + offset, 0, lane.ring_key};
    for (const iovec& part : local) remote.len += part.iov_len;
    fi_msg_rma message{};
    message.msg_iov = local.data();
    message.iov_count = local.size();
    message.addr = peer.handle;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = push != nullptr ? &push->context : &peer.context;
    message.data = data;
    error = fi_writemsg(endpoint_->ep(), &message,
                        FI_REMOTE_CQ_DATA | (push != nullptr ? FI_COMPLETION : 0));
  }
  if (error == -FI_EAGAIN) return Code::again;
  if (error != 0) {
    lose(lane.peer, error_text(error));
    return Code::peer_lost;
  }
  peer.posted_bytes += bytes;
  lane.restarts = false;
  if (lane.back != nullptr) lane.back->told.store(consumed, std::memory_order_relaxed);
  return Code::ok;
}

Code OfiFabric::return_credit(void* opaque, std::uint64_t word) noexcept {
  auto& lane = *static_cast<ReceiveLaneState*>(opaque);
  const std::lock_guard lock(lock_);
  PeerNode& peer = node(lane.peer);
  if (lane.closed || peer.handle == FI_ADDR_NOTAVAIL ||
      peer.state.load(std::memory_order_relaxed) != PeerState::alive)
    return Code::peer_lost;
  Control credit{};
  credit.type = Type::credit;
  credit.other_lane = lane.writer_lane;
  credit.channel = static_cast<std::uint32_t>(lane.channel);
  credit.bytes = word;
  send(lane.peer, credit);
  return Code::ok;
}

void OfiFabric::on_credit(const Control& control) noexcept {
  if (control.other_lane >= send_lanes_.size()) return;
  SendLaneState* lane = send_lanes_[control.other_lane].get();
  if (lane == nullptr || lane->peer != static_cast<int>(control.from) ||
      lane->channel != static_cast<int>(control.channel))
    return;
  // A write may have overtaken it with a later count, but not with flags.
  const std::uint64_t known = lane->credit.load(std::memory_order_relaxed) & ~kFlags;
  take_credit(*lane, std::max(known, control.bytes & ~kFlags) | (control.bytes & kFlags));
}

void OfiFabric::take_credit(SendLaneState& lane, std::uint64_t word) noexcept {
  // release: pairs with the acquire in RingWriter::look.
  lane.credit.store(word, std::memory_order_release);
  ring_own(writer_doorbell(lane.channel));
}

std::size_t OfiFabric::in_place_min(bool later) const noexcept {
  if (!rings_written_) return RemoteFabric::in_place_min(later);
  return later && watcher_ != nullptr ? kInPlaceMinLater : kInPlaceMin;
}

// One write of both. Other endpoints get a copy.
Code OfiFabric::post_in_place(void* opaque, std::size_t offset, std::size_t entry, std::size_t head,
                              std::span<const std::byte> data, Completion* done) noexcept {
  auto& lane = *static_cast<SendLaneState*>(opaque);
  const std::lock_guard lock(lock_);
  if (!is_open(lane)) return Code::peer_lost;
  if (const Code code = send_held(lane); code != Code::ok) return code;
  if (lane.ring_key == 0) {
    std::memcpy(lane.mirror.data() + offset + head, data.data(), data.size());
    const Code code = post_locked(lane, offset, entry);
    if (code == Code::ok && done != nullptr) done->set(Code::ok);
    return code;
  }
  Push* push = done != nullptr ? take_push(lane.peer) : nullptr;
  if (done != nullptr && push == nullptr) return Code::again;
  if (push != nullptr) push->done = done;
  const iovec local[] = {{lane.mirror.data() + offset, head},
                         {const_cast<std::byte*>(data.data()), data.size()}};
  const Code code = write(lane, offset, local, entry, push);
  if (code != Code::ok && push != nullptr) give_back(*push);
  return code;
}

void OfiFabric::restart(void* lane) noexcept { static_cast<SendLaneState*>(lane)->restarts = true; }

// The lane of a part, or null if the part is none of an open lane's.
ReceiveLaneState* OfiFabric::find_lane(std::uint64_t data) noexcept {
  const std::uint32_t number = static_cast<std::uint32_t>(data) >> kLineBits;
  if (number >= receive_lanes_.size() || receive_lanes_[number] == nullptr) return nullptr;
  ReceiveLaneState& lane = *receive_lanes_[number];
  return lane.token == data >> 32 && !lane.closed ? &lane : nullptr;
}

void OfiFabric::on_part(std::uint64_t data, const std::byte* bytes, std::size_t length) noexcept {
  if (static_cast<std::uint32_t>(data) >> kLineBits == kGetLane)
    return on_get_part(data, bytes, length);
  ReceiveLaneState* lane = find_lane(data);
  const std::size_t offset = lines_of(data) * kLine;
  if (lane == nullptr || offset > lane->ring.bytes() || length > lane->ring.bytes() - offset)
    return;
  std::memcpy(lane->ring.data() + offset, bytes, length);
  arrive(*lane, length);
}

// The provider has written it, and checked where.
void OfiFabric::on_written_part(std::uint64_t data) noexcept {
  const Written written = written_of(data);
  const auto found = written_lanes_.find(written.token);
  if (found == written_lanes_.end() || found->second->closed) return;
  ReceiveLaneState& lane = *found->second;
  // relaxed: made visible with the count of what has arrived.
  if (written.restarts)
    lane.restarted.store(lane.arrived.load(std::memory_order_relaxed), std::memory_order_relaxed);
  if (lane.back != nullptr) on_credit_along(*lane.back, written.consumed);
  arrive(lane, written.lines * kLine);
}

// Of a lane's credit the lower bits, in lines.
void OfiFabric::on_credit_along(SendLaneState& lane, std::uint16_t lines) noexcept {
  const std::uint64_t word = lane.credit.load(std::memory_order_relaxed);
  const auto more = static_cast<std::uint16_t>(lines - word / kLine);
  if (more != 0 && more * kLine <= lane.ring_bytes) take_credit(lane, word + more * kLine);
}

void OfiFabric::arrive(ReceiveLaneState& lane, std::size_t bytes) noexcept {
  PeerNode& peer = node(lane.peer);
  peer.note_heard(now_ns_);
  peer.arrived_bytes += bytes;
  // release: the bytes before the count; pairs with the acquire in ReceiveLane::peek.
  lane.arrived.store(lane.arrived.load(std::memory_order_relaxed) + bytes,
                     std::memory_order_release);
  ring_own(reader_doorbell(lane.channel));
}

void OfiFabric::on_arrival(std::uint64_t flags, std::uint64_t data,
                           std::span<const std::byte> bytes) noexcept {
  if ((flags & FI_REMOTE_WRITE) != 0) return on_written_part(data);
  if ((flags & FI_REMOTE_CQ_DATA) != 0) return on_part(data, bytes.data(), bytes.size());
  if (bytes.size() < sizeof(Control)) return;
  Control control;
  std::memcpy(&control, bytes.data(), sizeof control);
  on_control(control, bytes.subspan(sizeof control));
}

void OfiFabric::post_receive(ReceiveBuffer& buffer) noexcept {
  buffer.context.kind = Context::receive;
  void* descriptor =
      receive_registration_.mr != nullptr ? fi_mr_desc(receive_registration_.mr) : nullptr;
  const ssize_t error =
      fi_recv(endpoint_->ep(), buffer.data, part_max_, descriptor, FI_ADDR_UNSPEC, &buffer.context);
  if (error != 0) log_line(LogLevel::error, job_.rank(), "ofi: fi_recv: {}", error_text(error));
}

void OfiFabric::poll() noexcept {
  // Whoever holds the lock does the same.
  if (!lock_.try_lock()) return;
  poll_locked();
  lock_.unlock();
}

void OfiFabric::poll_locked() noexcept {
  now_ns_ = now_ns();
  ++polls_;
  if (!holding_.empty()) send_all_held();
  left_ = true;
  fi_cq_data_entry entries[kBatch];
  for (int round = 0; left_ && round < kRounds; ++round) {
    const ssize_t count = fi_cq_read(endpoint_->cq(), entries, kBatch);
    if (count == -FI_EAVAIL) {
      on_error();
      continue;
    }
    // A provider that was out of receive buffers may hold more messages, of which no descriptor
    // tells.
    bool received = false;
    for (ssize_t i = 0; i < count; ++i) {
      const fi_cq_data_entry& entry = entries[i];
      if ((entry.flags & FI_REMOTE_WRITE) != 0) {
        on_arrival(entry.flags, entry.data, {});
        continue;
      }
      auto* context = static_cast<Context*>(entry.op_context);
      if (context == nullptr) continue;
      if (context->kind == Context::receive) {
        auto& buffer = *reinterpret_cast<ReceiveBuffer*>(context);
        on_arrival(entry.flags, entry.data, {buffer.data, entry.len});
        post_receive(buffer);
        received = true;
      } else if (context->kind == Context::push) {
        auto& push = *reinterpret_cast<Push*>(context);
        if (push.done != nullptr) {
          push.done->set(Code::ok);
          ring_all();
        }
        give_back(push);
      } else if (context->kind == Context::operation) {
        node(context->peer).note_heard(now_ns_);
        finish(*reinterpret_cast<Operation*>(context), Code::ok);
      }
    }
    left_ = received || count == kBatch;
  }
  if (!full_outboxes_.empty()) flush_outboxes();
  if (!waiting_peers_.empty()) retry_waiting();
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
  if (context->kind == Context::push || context->kind == Context::post) {
    const int peer = context->peer;
    lose(peer, error_text(error.err));
    if (context->kind == Context::push) give_back(*reinterpret_cast<Push*>(context));
    return;
  }
  if (context->kind == Context::operation) {
    auto& operation = *reinterpret_cast<Operation*>(context);
    const int peer = operation.context.peer;
    // An access outside what the owner shares ends the connection, as far as providers over TCP go.
    operation.started = false;  // it ends here, after the peer
    lose(peer, error_text(error.err));
    finish(operation, error.err == FI_EACCES || error.err == FI_EKEYREJECTED ? Code::bad_argument
                                                                             : Code::peer_lost);
  }
}

bool OfiFabric::arm() noexcept {
  const std::lock_guard lock(lock_);
  return !left_ && endpoint_->try_wait();
}

}  // namespace weft::ofi
