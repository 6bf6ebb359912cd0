// Entries and credit, and the messages of peers.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/ring.hpp"
#include "lanes/linked/remote_lanes.hpp"

namespace weft::transport {

namespace {

constexpr std::uint64_t kMostWritten = 256 << 10;  // at once
// As much is held at most.
constexpr std::uint64_t kHeldMax = 131072;
constexpr std::uint64_t kLine = kEntryAlign;
constexpr std::size_t kFirstRegistered = 256 << 10;  // of a ring
// Polls between two readings of the clock, which cost as much as a poll without result. Before a
// sleep the count begins anew, so that a thread that polls rarely reads it each time.
constexpr unsigned kClockPolls = 16;

}  // namespace

// Posting.

bool RemoteLanes::is_open(const SendLaneState& lane) const noexcept {
  return lane.state == SendLaneState::open && is_alive(lane.peer->rank);
}

void RemoteLanes::restart(void* lane) noexcept {
  static_cast<SendLaneState*>(lane)->restarts = true;
}

// Accepted bytes stay in the mirror until they are credited, so there is always room for them.
void RemoteLanes::post(void* opaque, std::size_t offset, std::size_t bytes,
                       bool may_hold) noexcept {
  auto& lane = *static_cast<SendLaneState*>(opaque);
  if (!may_hold && post_directly(lane, offset, bytes)) return;
  const std::lock_guard lock(lock_);
  if (!is_open(lane)) return;
  lane.lock.lock();
  const bool is_accepted = accept_bytes(lane, offset, bytes);
  if (is_accepted && !(may_hold && holds_back(lane))) send_entries(lane);
  lane.lock.unlock();
  if (!is_accepted) lose(*lane.peer, "gives credit for what it has not got");
}

// The writer's own thread, without the lock of all: as a write into the ring, if nothing else has
// to go before it and there is room.
bool RemoteLanes::post_directly(SendLaneState& lane, std::size_t offset,
                                std::size_t bytes) noexcept {
  const std::lock_guard guard(lane.lock);
  if (lane.accepted != lane.sent || lane.segments.empty() || !lane.segments.back().is_full ||
      (lane.segments.back().flags != 0 && lane.segments.back().position == lane.sent) ||
      lane.waits_count || lane.is_held || lane.restarts || bytes > kMostWritten ||
      offset + bytes > lane.mirror->registered_bytes || !is_open(lane) ||
      !lane.peer->link.is_clear())
    return false;
  Mirror& mirror = *lane.mirror;
  // relaxed: it counts, and orders nothing.
  mirror.under_way.fetch_add(1, std::memory_order_relaxed);
  const Code code =
      lane.peer->link.write_clear({mirror.memory.data() + offset, bytes}, mirror.registration(),
                                  lane.key, offset, write_number(lane.ring, lane.sent), mirror);
  if (code != Code::ok) {
    mirror.under_way.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  [[maybe_unused]] const bool is_accepted = accept_bytes(lane, offset, bytes);
  lane.sent = lane.accepted;
  return true;
}

// False: the reader gives credit for what it has not got.
bool RemoteLanes::accept_bytes(SendLaneState& lane, std::size_t offset, std::size_t bytes) {
  auto& segments = lane.segments;
  const bool becomes_full = lane.is_full && (segments.empty() || !segments.back().is_full);
  if (lane.restarts || becomes_full || segments.empty() ||
      segments.back().offset + (lane.accepted - segments.back().position) != offset) {
    if (segments.size() == SendLaneState::kMaxSegments) {
      // Only a writer with credit for bytes that it never sent is so far ahead.
      if (lane.sent < segments[1].position) return false;
      segments.erase(segments.begin());
    }
    const bool restarts = std::exchange(lane.restarts, false);
    const std::uint8_t flags = becomes_full ? kFullRing : restarts ? kRestart : 0;
    segments.push_back({lane.accepted, static_cast<std::uint32_t>(offset), flags, lane.is_full});
  }
  lane.accepted += bytes;
  if (is_engine_channel(lane.channel))
    lane.peer->written.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

// The second post in a row, with no poll between, is held, and those after it: together they are
// one message. The first is not, so that an answer is never late.
bool RemoteLanes::holds_back(SendLaneState& lane) {
  if (watcher_ == nullptr || lane.accepted - lane.sent >= kHeldMax) return false;
  if (lane.is_held) return true;
  if (lane.let_go_after != polls_) {
    lane.let_go_after = polls_;
    return false;
  }
  lane.is_held = true;
  held_.push_back(&lane);
  holds_.store(true, std::memory_order_relaxed);
  watcher_->look_soon();
  return true;
}

// With the lane's lock, as the functions below.
void RemoteLanes::send_entries(SendLaneState& lane) {
  if (std::exchange(lane.is_held, false)) {
    std::erase(held_, &lane);
    holds_.store(!held_.empty(), std::memory_order_relaxed);
  }
  if (lane.waits_count || lane.state != SendLaneState::open) return lane.peer->link.want();
  Code code = Code::ok;
  while (code == Code::ok && lane.sent < lane.accepted) code = send_segment(lane);
  if (code == Code::ok) return;
  // Once a link is up, the arrived bytes are reported.
  if (code != Code::again) return lane.peer->link.want();
  if (!std::exchange(lane.is_listed, true)) lane.peer->unsent.push_back(&lane);
  lane.peer->make_busy();
}

// Sends one message or write. Entries go into the ring by a write once its reader has registered
// it, and by messages, which both sides copy, before, and on fabrics that have only those. A
// segment with flags begins with a message.
Code RemoteLanes::send_segment(SendLaneState& lane) {
  std::size_t i = lane.segments.size() - 1;
  while (lane.segments[i].position > lane.sent) --i;
  const SendLaneState::Segment& segment = lane.segments[i];
  const std::uint64_t end =
      i + 1 < lane.segments.size() ? lane.segments[i + 1].position : lane.accepted;
  const std::uint64_t most =
      (endpoint_->limits().message_max - sizeof(EntriesMessage)) / kLine * kLine;
  const auto offset = static_cast<std::uint32_t>(segment.offset + (lane.sent - segment.position));
  const bool has_flags = segment.flags != 0 && lane.sent == segment.position;
  if (segment.is_full && !has_flags && offset < lane.mirror->registered_bytes)
    return write_entries(lane, offset, end - lane.sent);
  const auto bytes = static_cast<std::uint32_t>(std::min(end - lane.sent, most));
  std::byte* from = (segment.is_full ? lane.mirror->memory.data() : lane.initial) + offset;
  // acquire: its reader is done with what it counted, and the peer may write there; pairs with the
  // release in RingReader::share_credit.
  const std::uint64_t credit =
      lane.back != nullptr ? lane.back->consumed.load(std::memory_order_acquire) : 0;
  EntriesMessage message{
      {.kind = Kind::lane_entries, .id = lane.ring}, lane.sent, credit, offset, bytes};
  if (lane.sent == segment.position) message.flags = segment.flags;
  const bool in_place = segment.is_full && bytes >= endpoint_->limits().in_place_min;
  const Code code = lane.peer->link.send_once(message, sizeof message, {from, bytes},
                                              in_place ? lane.mirror.get() : nullptr);
  if (code != Code::ok) return code;
  if (in_place) lane.mirror->under_way.fetch_add(1, std::memory_order_relaxed);
  lane.sent += bytes;
  if (lane.back != nullptr) lane.back->reported.store(credit, std::memory_order_relaxed);
  return Code::ok;
}

Code RemoteLanes::write_entries(SendLaneState& lane, std::uint32_t offset, std::uint64_t bytes) {
  Mirror& mirror = *lane.mirror;
  bytes = std::min({bytes, mirror.registered_bytes - offset, kMostWritten});
  const Code code =
      lane.peer->link.write_once({mirror.memory.data() + offset, bytes}, mirror.registration(),
                                 lane.key, offset, write_number(lane.ring, lane.sent), mirror);
  if (code != Code::ok) return code;
  mirror.under_way.fetch_add(1, std::memory_order_relaxed);
  lane.sent += bytes;
  return Code::ok;
}

void RemoteLanes::send_held() {
  // From the last, as each that is sent leaves the list.
  for (std::size_t i = held_.size(); i-- > 0;) {
    SendLaneState& lane = *held_[i];
    const std::lock_guard guard(lane.lock);
    send_entries(lane);
  }
}

bool RemoteLanes::push() noexcept {
  if (!holds_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(lock_);
  send_held();
  return true;
}

void RemoteLanes::set_watcher(Watcher* watcher) noexcept {
  const std::lock_guard lock(lock_);
  watcher_ = watcher;
}

void RemoteLanes::return_credit(void* opaque, std::uint64_t word) noexcept {
  auto& lane = *static_cast<ReceiveLaneState*>(opaque);
  const std::lock_guard lock(lock_);
  if (lane.closed || !is_alive(lane.peer->rank)) return;
  lane.word = word;
  if (lane.owes_credit) return;
  lane.owes_credit = true;
  if (!lane.peer->link.is_up()) return lane.peer->link.want();  // the count reports it
  if (!send_owed(lane)) owe(lane);
}

// Puts off the credit or count that the lane owes.
void RemoteLanes::owe(ReceiveLaneState& lane) {
  auto& owing = lane.peer->owing;
  if (std::find(owing.begin(), owing.end(), &lane) == owing.end()) owing.push_back(&lane);
  lane.peer->make_busy();
}

// False: there is no room.
bool RemoteLanes::send_owed(ReceiveLaneState& lane) {
  if (lane.owes_count) return send_count(lane);
  CreditMessage message{{.kind = Kind::lane_credit, .id = lane.writer}, lane.word};
  if (lane.peer->link.send_once(message, sizeof message, {}) != Code::ok) return false;
  lane.owes_credit = false;
  return true;
}

bool RemoteLanes::send_count(ReceiveLaneState& lane) {
  const std::uint64_t consumed = lane.consumed.load(std::memory_order_acquire);
  const std::uint64_t counted = std::max(consumed, lane.word & ~kFlagMask);
  CountMessage message{{.kind = Kind::lane_count, .id = lane.writer},
                       counted | (lane.word & kFlagMask),
                       lane.arrived.load(std::memory_order_relaxed)};
  if (lane.peer->link.send_once(message, sizeof message, {}) != Code::ok) return false;
  lane.reported.store(counted, std::memory_order_relaxed);
  lane.owes_count = lane.owes_credit = false;
  return true;
}

// False: more is left.
bool RemoteLanes::pump_lanes(RankPeer& peer) {
  while (!peer.owing.empty()) {
    if (!send_owed(*peer.owing.back())) return false;
    peer.owing.pop_back();
  }
  while (!peer.unsent.empty()) {
    SendLaneState& lane = *peer.unsent.back();
    peer.unsent.pop_back();
    const std::lock_guard guard(lane.lock);
    lane.is_listed = false;
    send_entries(lane);
    if (lane.is_listed) return false;
  }
  return true;
}

// Arrivals.

void RemoteLanes::on_message(fabric::Link& link, fabric::Bytes bytes) {
  auto& peer = *static_cast<RankPeer*>(link.client);
  Head head;
  fabric::Bytes data;
  if (!read_message(bytes, head, data)) return lose(peer, "sends invalid data");
  switch (peer.link.receive(head, bytes.size(), now_ns_)) {
    case ReliableLink::Received::fresh: {
      const Code code =
          or_no_memory([&] { return dispatch(peer, head, bytes) ? Code::ok : Code::corrupt; });
      if (code == Code::no_memory)
        lose(peer, "asks for what there is no memory for", LogLevel::warn);
      else if (code != Code::ok)
        lose(peer, "sends invalid data");
      return;
    }
    case ReliableLink::Received::nothing:
      return;
    case ReliableLink::Received::up:
      return note_up(peer);
    case ReliableLink::Received::corrupt:
      return lose(peer, "sends messages out of order");
  }
}

bool RemoteLanes::dispatch(RankPeer& peer, const Head& head, fabric::Bytes bytes) {
  MessageReader with{bytes};
  switch (head.kind) {
    case Kind::lane_entries:
      return with(EntriesMessage{}, [&](auto& m) { return on_entries(peer, m, with.data); });
    case Kind::lane_credit:
      return with(CreditMessage{}, [&](auto& m) { return on_credit(peer, m.id, m.word); });
    case Kind::lane_count:
      return with(CountMessage{}, [&](auto& m) { return on_count(peer, m); });
    case Kind::lane_open:
      return with(LaneOpenMessage{}, [&](auto& m) {
        on_lane_open(peer, m);
        return true;
      });
    case Kind::lane_key:
      return with(LaneKeyMessage{}, [&](auto& m) { return on_lane_key(peer, m); });
    case Kind::lane_answer:
      return with(LaneAnswerMessage{}, [&](auto& m) { return on_lane_answer(peer, m); });
    case Kind::put:
    case Kind::get:
    case Kind::data:
    case Kind::atomic:
    case Kind::done:
      return on_target_side(peer, head.kind, bytes);
    case Kind::bye:
      return with(ByeMessage{}, [&](auto& m) {
        peer.is_leaving = true;
        peer.goodbye_written = m.written;
        note_goodbye(peer);
        return true;
      });
    case Kind::rest:
      on_rest(peer, head.id == 1);
      return true;
    case Kind::farewell:
      peer.got_farewell = true;
      peer.link.want_ack();
      return true;
    default:
      return false;
  }
}

bool RemoteLanes::on_entries(RankPeer& peer, const EntriesMessage& message, fabric::Bytes data) {
  ReceiveLaneState* lane = find(receive_lanes_, peer, message.id);
  if (lane == nullptr || lane->closed) return true;
  const std::uint64_t arrived = lane->arrived.load(std::memory_order_relaxed);
  if (message.position != arrived || data.size() != message.bytes || message.bytes % kLine != 0 ||
      message.offset % kLine != 0)
    return false;
  if ((message.flags & kFullRing) != 0) {
    if (message.offset != 0 || lane->ring.memory.data() != nullptr) return false;
    if (!lane->ring.memory.map(lane->ring_bytes + kRingPage)) {
      // It comes again over the next link.
      if (lane->short_ns == 0) lane->short_ns = now_ns_;
      if (now_ns_ - lane->short_ns > job_.settings().patience_ns()) throw std::bad_alloc();
      drop_link(peer);
      peer.link.back_off(now_ns_);
      return true;
    }
    lane->full.ring = lane->ring.memory.data();
    // relaxed: made visible with the count of arrived bytes.
    lane->full.from.store(arrived, std::memory_order_relaxed);
  }
  const bool is_full = lane->ring.memory.data() != nullptr;
  if (!is_within(message.offset, message.bytes, 0,
                 is_full ? lane->ring.memory.bytes() : sizeof lane->initial))
    return false;
  std::memcpy((is_full ? lane->ring.memory.data() : lane->initial) + message.offset, data.data(),
              data.size());
  if (is_full && message.offset + message.bytes > lane->ring.registered_bytes) register_ring(*lane);
  // First the credit: a thread that answers an arrived entry finds its own ring empty.
  if (SendLaneState* back = lane->back; back != nullptr) {
    const std::uint64_t word = back->credit.load(std::memory_order_relaxed);
    const std::uint64_t more = message.credit - (word & ~kFlagMask);
    if (more != 0 && more <= back->ring_bytes && message.credit % kLine == 0)
      take_credit(*back, word + more);
  }
  // relaxed: made visible with the count of arrived bytes.
  if ((message.flags & kRestart) != 0) lane->restarted.store(arrived, std::memory_order_relaxed);
  count_arrived(*lane, message.bytes);
  return true;
}

void RemoteLanes::count_arrived(ReceiveLaneState& lane, std::uint64_t bytes) {
  // release: the bytes before the count; pairs with the acquire in ReceiveLane::peek.
  lane.arrived.store(lane.arrived.load(std::memory_order_relaxed) + bytes,
                     std::memory_order_release);
  lane.arrivals->list(lane.arrival);
  ring_own(reader_doorbell(lane.channel));
  if (is_engine_channel(lane.channel)) {
    lane.peer->arrived += bytes;
    if (lane.peer->is_leaving) [[unlikely]]
      note_goodbye(*lane.peer);
  }
}

void RemoteLanes::on_written(fabric::Link& link, std::uint32_t number, std::size_t bytes) {
  auto& peer = *static_cast<RankPeer*>(link.client);
  peer.link.note_sign_of_life(now_ns_);
  const auto* found = receive_lanes_.in_place(number);
  ReceiveLaneState* lane = found != nullptr ? found->get() : nullptr;
  // Else it is closed, and another lane may have its place.
  if (lane == nullptr || lane->peer != &peer || lane->closed ||
      ((lane->number ^ number) & 0xff'ffff) != 0)
    return;
  const std::uint64_t arrived = lane->arrived.load(std::memory_order_relaxed);
  if (number != write_number(lane->number, arrived) || bytes % kLine != 0 ||
      bytes > lane->ring.registered_bytes)
    return lose(peer, "writes what is no entry");
  count_arrived(*lane, bytes);
}

// So that the writer's entries go into the ring by writes. A ring that a device writes is pinned:
// first the part that most never leave. Without memory for that, messages go on.
void RemoteLanes::register_ring(ReceiveLaneState& lane) {
  if (!endpoint_->limits().writes || lane.lacks_registration) return;
  RingMemory& ring = lane.ring;
  const std::size_t all = ring.memory.bytes();
  const std::size_t bytes = ring.registered_bytes == 0 ? std::min(all, kFirstRegistered) : all;
  Status status;
  fabric::Registration made;
  if (registered_rings_ + bytes > most_registered_)
    status = {Code::no_memory, "rings have all the memory that they may pin"};
  else
    status = or_no_memory([&] {
      return endpoint_->register_memory(ring.memory.data(), bytes, fabric::kWrite, made);
    });
  if (!status) {
    lane.lacks_registration = true;
    (void)or_no_memory([&] {
      log_line(LogLevel::info, job_.rank(), "{}: entries of {} go by messages: {}", name(),
               job_.describe(lane.peer->rank), status.text());
    });
    return;
  }
  LaneKeyMessage message{{.kind = Kind::lane_key, .id = lane.writer}, made.key};
  // Without room for the message the next entry tries again.
  if (or_no_memory([&] { return lane.peer->link.post(message, sizeof message, {}); }) != Code::ok)
    return endpoint_->deregister(made);
  ring.take(made, bytes);
  registered_rings_ += bytes;
}

// The mirror is registered as far as the ring is.
bool RemoteLanes::on_lane_key(RankPeer& peer, const LaneKeyMessage& message) {
  SendLaneState* lane = find(send_lanes_, peer, message.id);
  if (lane == nullptr) return true;  // closed meanwhile
  if (lane->mirror == nullptr) return false;
  if (!endpoint_->limits().writes) return true;  // a device without writes
  Mirror& mirror = *lane->mirror;
  const std::uint64_t bytes =
      std::min<std::uint64_t>(fabric::parts_of(message.key).bytes, mirror.memory.bytes());
  if (bytes <= mirror.registered_bytes || bytes % kLine != 0 || !mirror.grows()) return false;
  // Without memory for that, messages go on.
  if (registered_mirrors_ + bytes > most_registered_) return true;
  fabric::Registration made;
  if (!or_no_memory(
          [&] { return endpoint_->register_memory(mirror.memory.data(), bytes, 0, made); }))
    return true;
  const std::lock_guard guard(lane->lock);
  mirror.take(made, bytes);
  registered_mirrors_ += bytes;
  lane->key = message.key;
  return true;
}

void RemoteLanes::take_credit(SendLaneState& lane, std::uint64_t word) {
  // release: pairs with the acquire in RingWriter::check.
  lane.credit.store(word, std::memory_order_release);
  ring_own(writer_doorbell(lane.channel));
}

bool RemoteLanes::on_credit(RankPeer& peer, std::uint32_t number, std::uint64_t word) {
  SendLaneState* lane = find(send_lanes_, peer, number);
  if (lane == nullptr) return true;
  const std::uint64_t known = lane->credit.load(std::memory_order_relaxed) & ~kFlagMask;
  const std::uint64_t counted = word & ~kFlagMask;
  if (counted > known && counted - known > lane->ring_bytes) return false;
  // Entries may have overtaken it with a later count, but not with flags.
  take_credit(*lane, std::max(known, counted) | (word & kFlagMask));
  return true;
}

// The first of a lane after a link came up.
bool RemoteLanes::on_count(RankPeer& peer, const CountMessage& message) {
  SendLaneState* lane = find(send_lanes_, peer, message.id);
  if (lane == nullptr || lane->state != SendLaneState::open) return true;
  const std::lock_guard guard(lane->lock);
  if (!lane->waits_count) return true;
  const std::uint64_t least = lane->segments.empty() ? 0 : lane->segments.front().position;
  if (message.arrived < least || message.arrived > lane->sent || message.arrived % kLine != 0)
    return false;
  if (!on_credit(peer, message.id, message.word)) return false;
  lane->waits_count = false;
  lane->sent = message.arrived;
  send_entries(*lane);
  return true;
}

// Progress.

void RemoteLanes::poll() noexcept {
  // The thread that holds the lock does the same.
  if (!lock_.try_lock()) return;
  poll_locked();
  lock_.unlock();
}

void RemoteLanes::poll_locked() {
  const bool reads_clock = polls_to_clock_ == 0;
  if (reads_clock) now_ns_ = now_ns();
  polls_to_clock_ = reads_clock ? kClockPolls : polls_to_clock_ - 1;
  ++polls_;
  if (!held_.empty()) send_held();
  endpoint_->poll(*this);
  if (!busy_.empty()) pump_busy();
  if (reads_clock) tick();
}

bool RemoteLanes::arm() noexcept {
  const std::lock_guard lock(lock_);
  polls_to_clock_ = 0;
  return endpoint_->arm();
}

}  // namespace weft::transport
