// Lanes: the writer asks, the reader makes a ring and answers with its number. No thread waits:
// connect() returns "again" until the answer is there.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "lanes/linked/remote_lanes.hpp"

namespace weft::transport {

namespace {

constexpr std::size_t kMaxLanes = 0xffff;  // of each kind
constexpr std::uint32_t kMaxRing = 1u << 30;

// Links the two lanes of a pair to each other.
void join(RankPeer::Pair& pair) {
  if (pair.send == nullptr || pair.receive == nullptr) return;
  if (pair.send->back != nullptr) pair.send->back->back = nullptr;
  pair.send->back = pair.receive;
  pair.receive->back = pair.send;
}

// Where neither lane is there any more.
void forget_pair(RankPeer& peer, int channel) {
  const auto found = peer.pairs.find(channel);
  if (found->second.send == nullptr && found->second.receive == nullptr) peer.pairs.erase(found);
}

}  // namespace

// Counts the rings of exchanges, and the mirrors of peers' ones, against WEFT_LANE_MEMORY_BYTES;
// the engine's, one for each peer, are always given.
Status RemoteLanes::take_lane_memory(int channel, std::uint32_t bytes) {
  if (is_engine_channel(channel)) return {};
  const std::size_t maximum = job_.settings().bytes(Setting::lane_memory_bytes);
  if (bytes > maximum || lane_memory_ > maximum - bytes)
    return {Code::no_memory, fmt::format("rings take {} bytes already, and "
                                         "WEFT_LANE_MEMORY_BYTES is {}",
                                         lane_memory_, maximum)};
  lane_memory_ += bytes;
  return {};
}

void RemoteLanes::give_lane_memory(int channel, std::uint32_t bytes) noexcept {
  if (!is_engine_channel(channel)) lane_memory_ -= bytes;
}

Status RemoteLanes::ask(RankPeer& peer, int channel, std::uint32_t ring_bytes,
                        SendLaneState*& lane) {
  auto made = std::make_unique<SendLaneState>();
  made->peer = &peer;
  made->channel = channel;
  made->ring_bytes = ring_bytes;
  made->asked_ns = now_ns();
  if (send_lanes_.size() >= kMaxLanes) return {Code::no_memory, "more than 65535 lanes"};
  made->segments.reserve(SendLaneState::kMaxSegments);
  // So that posting takes no memory.
  send_lanes_.make_room();
  make_room(held_, send_lanes_.size() + 1 - held_.size());
  make_room(retired_, send_lanes_.size() + 1);
  make_room(lost_memory_, send_lanes_.size() + 1);
  make_room(peer.unsent, peer.pairs.size() + 1);
  auto& pair = peer.pairs[channel];
  if (Status status = or_no_memory([&] { return take_lane_memory(channel, ring_bytes); });
      !status) {
    forget_pair(peer, channel);
    return status;
  }
  pair.send = lane = made.get();
  lane->number = send_lanes_.add(std::move(made), ++num_lanes_made_);
  note_doorbell(writer_doorbell(channel));
  join(pair);
  watch(peer);
  LaneOpenMessage message{{.kind = Kind::lane_open, .id = lane->number},
                          static_cast<std::uint32_t>(channel),
                          ring_bytes};
  const Code code = or_no_memory([&] { peer.link.post_control(message, sizeof message); });
  if (code != Code::ok) drop(*std::exchange(lane, nullptr));
  return code;
}

// One page beyond the ring, as the mark that sends the reader back may lie there.
std::byte* RemoteLanes::full_ring(void* opaque) noexcept {
  auto& lane = *static_cast<SendLaneState*>(opaque);
  const std::lock_guard lock(lock_);
  Status status = or_no_memory([&] {
    if (lane.mirror == nullptr) lane.mirror = std::make_unique<Mirror>(*endpoint_);
    return lane.mirror->memory.map(lane.ring_bytes + kRingPage);
  });
  if (status) {
    lane.is_full = true;
    return lane.mirror->memory.data();
  }
  if (lane.short_ns == 0) lane.short_ns = now_ns();
  if (now_ns() - lane.short_ns > job_.settings().patience_ns()) {
    (void)or_no_memory([&] {
      log_line(LogLevel::error, job_.rank(), "the ring for {}: {}", job_.describe(lane.peer->rank),
               status.text());
    });
    lose(*lane.peer, "there is no memory for a ring");
  }
  return nullptr;
}

Status RemoteLanes::connect(int rank, int channel, SendMemory& memory) {
  const std::lock_guard lock(lock_);
  RankPeer* peer = nullptr;
  if (!is_alive(rank)) return {Code::peer_lost, fmt::format("{} is lost", job_.describe(rank))};
  if (Status status = or_no_memory([&] { return reach(rank, peer); }); !status) return status;
  SendLaneState* lane = nullptr;
  if (const auto found = peer->pairs.find(channel); found != peer->pairs.end())
    lane = found->second.send;
  if (lane == nullptr) {
    std::uint32_t ring_bytes = memory.ring_bytes;
    if (ring_bytes == 0)
      ring_bytes = static_cast<std::uint32_t>(job_.settings().bytes(Setting::ring_max_bytes));
    if (Status status = or_no_memory([&] { return ask(*peer, channel, ring_bytes, lane); });
        !status)
      return status;
  }
  if (lane->state == SendLaneState::asking) {
    if (now_ns() - lane->asked_ns < timeout_ns_) return Code::again;
    if (peer->link.takes_turns() || lacks_descriptors(*peer)) {
      lane->asked_ns = now_ns();
      return Code::again;
    }
    return {Code::timed_out,
            fmt::format("{} has not answered {} for {} ms over {}: is a port closed between them?",
                        job_.describe(rank), job_.describe(job_.rank()), timeout_ns_ / 1'000'000,
                        way_text(*peer))};
  }
  if (lane->state != SendLaneState::open) {
    const Code code = lane->code;
    drop(*lane);
    return {code, fmt::format("{} refused a lane of {}", job_.describe(rank),
                              job_.describe(job_.rank()))};
  }
  memory.ring = lane->initial;
  memory.initial_bytes = kInitialRingBytes;
  memory.consumed = &lane->credit;
  memory.sleeping = &never_;
  memory.ring_bytes = lane->ring_bytes;
  memory.lane = lane;
  return {};
}

Status RemoteLanes::accept(int client, int& rank, int& channel, ReceiveMemory& memory) {
  const std::lock_guard lock(lock_);
  rank = -1;
  channel = 0;
  const auto found = std::find_if(arriving_.begin(), arriving_.end(), [&](ReceiveLaneState* lane) {
    return channel_of(lane->channel).client == client;
  });
  if (found == arriving_.end()) return {};
  ReceiveLaneState& lane = **found;
  arriving_.erase(found);
  rank = lane.peer->rank;
  channel = lane.channel;
  memory.ring = lane.initial;
  memory.initial_bytes = kInitialRingBytes;
  memory.full = &lane.full;
  memory.consumed = &lane.consumed;
  memory.sleeping = &never_;
  memory.ring_bytes = lane.ring_bytes;
  memory.arrived = &lane.arrived;
  memory.restarted = &lane.restarted;
  memory.reported = &lane.reported;
  memory.arrivals = lane.arrivals;
  memory.arrival = &lane.arrival;
  memory.lane = &lane;
  return {};
}

// A fabric may not be done with a mirror.
void RemoteLanes::drop(SendLaneState& lane, bool is_forgotten) {
  RankPeer& peer = *lane.peer;
  give_lane_memory(lane.channel, lane.ring_bytes);
  std::erase(held_, &lane);
  holds_.store(!held_.empty(), std::memory_order_relaxed);
  std::erase(peer.unsent, &lane);
  peer.pairs.at(lane.channel).send = nullptr;
  forget_pair(peer, lane.channel);
  if (lane.back != nullptr) lane.back->back = nullptr;
  if (Mirror* mirror = lane.mirror.get(); mirror != nullptr) {
    registered_mirrors_ -= mirror->pinned_bytes;
    // What is under way is reported, with the end of its link if not before. A registered mirror is
    // not read any more after that.
    if (mirror->under_way > 0)
      retired_.push_back(std::move(lane.mirror));
    else if (mirror->registered_bytes == 0 &&
             ((!is_alive(peer.rank) && !is_forgotten) || is_leaving_ || mirror->was_cut_off))
      lost_memory_.push_back(std::move(mirror->memory));
  }
  send_lanes_.remove(lane.number);
}

void RemoteLanes::drop(ReceiveLaneState& lane, std::unique_ptr<ReceiveLaneState>* kept) {
  RankPeer& peer = *lane.peer;
  give_lane_memory(lane.channel, lane.ring_bytes);
  std::erase(arriving_, &lane);
  std::erase(peer.owing, &lane);
  if (lane.back != nullptr) lane.back->back = nullptr;
  peer.pairs.at(reverse_channel(lane.channel)).receive = nullptr;
  forget_pair(peer, reverse_channel(lane.channel));
  registered_rings_ -= lane.ring.pinned_bytes;
  lane.ring.deregister();
  auto taken = receive_lanes_.remove(lane.number);
  if (kept != nullptr) *kept = std::move(taken);
}

void RemoteLanes::drop_lanes(int client) {
  const auto drop_one = [&](std::uint32_t, auto& lane) {
    if (client < 0 || channel_of(lane->channel).client == client) drop(*lane);
  };
  send_lanes_.for_each(drop_one);
  receive_lanes_.for_each(drop_one);
}

void RemoteLanes::close_client(int client) noexcept {
  const std::lock_guard lock(lock_);
  drop_lanes(client);
  std::erase_if(arrivals_, [&](const auto& one) { return channel_of(one.first).client == client; });
}

Status RemoteLanes::take_lane(RankPeer& peer, const LaneOpenMessage& message,
                              ReceiveLaneState*& lane) {
  if (message.ring_bytes < kRingPage || message.ring_bytes > kMaxRing ||
      message.ring_bytes % kRingPage != 0 ||
      message.channel > static_cast<std::uint32_t>(kMaxClients) << 16)
    return Code::bad_argument;
  const int channel = static_cast<int>(message.channel);
  const int back = reverse_channel(channel);
  if (const auto found = peer.pairs.find(back);
      found != peer.pairs.end() && found->second.receive != nullptr)
    return {Code::bad_argument, "it has that lane already"};
  if (receive_lanes_.size() >= kMaxLanes) return Code::no_memory;
  auto made = std::make_unique<ReceiveLaneState>(*endpoint_);
  // Of all lanes to this thread of the client.
  auto& arrivals =
      arrivals_[channel_number({channel_of(channel).client, 0, channel_of(channel).reader})];
  if (arrivals == nullptr) arrivals = std::make_unique<Arrivals>();
  made->arrivals = arrivals.get();
  made->peer = &peer;
  made->channel = channel;
  made->ring_bytes = message.ring_bytes;
  made->writer = message.id;
  receive_lanes_.make_room();
  make_room(arriving_);
  make_room(peer.owing, peer.pairs.size() + 1);
  auto& pair = peer.pairs[back];
  if (Status status = or_no_memory([&] { return take_lane_memory(channel, message.ring_bytes); });
      !status) {
    forget_pair(peer, back);
    return status;
  }
  pair.receive = lane = made.get();
  lane->number = receive_lanes_.add(std::move(made), ++num_lanes_made_);
  note_doorbell(reader_doorbell(channel));
  join(pair);
  return {};
}

void RemoteLanes::on_lane_open(RankPeer& peer, const LaneOpenMessage& message) {
  LaneAnswerMessage answer{{.kind = Kind::lane_answer, .id = message.id}, 0, 0};
  ReceiveLaneState* lane = nullptr;
  if (Status status = or_no_memory([&] { return take_lane(peer, message, lane); }); !status) {
    log_line(LogLevel::warn, job_.rank(), "{}: refused a lane of {}: {}", name(),
             job_.describe(peer.rank), status.text());
    answer.code = static_cast<std::uint32_t>(status.code());
    return peer.link.post_control(answer, sizeof answer);
  }
  answer.ring = lane->number;
  arriving_.push_back(lane);
  // release: pairs with the acquire of the thread that checks before accept().
  connections_.fetch_add(1, std::memory_order_release);
  ring_own(reader_doorbell(lane->channel));
  peer.link.post_control(answer, sizeof answer);
}

bool RemoteLanes::on_lane_answer(RankPeer& peer, const LaneAnswerMessage& message) {
  SendLaneState* lane = find(send_lanes_, peer, message.id);
  if (lane == nullptr) return true;  // closed meanwhile
  if (lane->state != SendLaneState::asking) return lane->state == SendLaneState::closed;
  if (message.code != 0) {
    lane->state = SendLaneState::refused;
    lane->code = message.code == static_cast<std::uint32_t>(Code::no_memory) ? Code::no_memory
                                                                             : Code::bad_argument;
  } else {
    lane->ring = message.ring;
    lane->state = SendLaneState::open;
  }
  ring_own(writer_doorbell(lane->channel));
  return true;
}

}  // namespace weft::transport
