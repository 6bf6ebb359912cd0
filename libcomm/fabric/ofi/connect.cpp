// Lanes: the writer asks, the reader makes a ring and answers with its number. Nobody waits:
// connect() says "again" until the answer is there. Both ends may ask at once, each for its own
// direction.
#include <fmt/core.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/wait.hpp"
#include "fabric/ofi/ofi.hpp"

namespace weft::ofi {
namespace {

constexpr std::size_t kPage = 4096;
// What does not go is tried again after this share of the time for which it has not gone.
constexpr std::uint64_t kRetryShare = 8;

// For one peer: what this process asks, for every lane at most, and many times what a peer asks
// that takes its answers.
constexpr std::size_t kMaxWaiting = kMaxLanes + 4096;

// "provider secret address", all but the first in hexadecimal digits.
bool read_hex(std::string_view text, std::string& bytes) {
  bytes.clear();
  if (text.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    int value = 0;
    for (const char c : text.substr(i, 2)) {
      const std::size_t digit = std::string_view("0123456789abcdef").find(c);
      if (digit == std::string_view::npos) return false;
      value = value * 16 + static_cast<int>(digit);
    }
    bytes.push_back(static_cast<char>(value));
  }
  return true;
}

// A lane's number is taken again once it is free. What is still on its way to the old one is told
// by its random number or its channel, which no other lane has had.
template <class Lane>
std::size_t free_number(const std::vector<std::unique_ptr<Lane>>& lanes) {
  return static_cast<std::size_t>(std::find(lanes.begin(), lanes.end(), nullptr) - lanes.begin());
}

}  // namespace

Status OfiFabric::read_address(int peer, PeerNode& node) const {
  std::string text;
  if (Status status = job_.board().get(peer, "ofi.address", text); !status) return status;
  const std::size_t first = text.find(' ');
  const std::size_t second = text.find(' ', first + 1);
  std::string secret;
  if (first == std::string::npos || second == std::string::npos ||
      !read_hex(std::string_view(text).substr(first + 1, second - first - 1), secret) ||
      secret.size() != sizeof node.secret ||
      !read_hex(std::string_view(text).substr(second + 1), node.address))
    return {Code::corrupt,
            fmt::format("{} published no usable address ('{}')", job_.describe(peer), text)};
  if (text.substr(0, first) != endpoint_->info().fabric_attr->prov_name)
    return {Code::unsupported, "it has another provider (WEFT_OFI_PROVIDER)"};
  if (node.address.size() != endpoint_->address().size())
    return {Code::unsupported,
            fmt::format("its address {} is of another kind than {} (WEFT_OFI_INTERFACE)",
                        address_text(node.address), endpoint_->interface().address)};
  std::memcpy(&node.secret, secret.data(), sizeof node.secret);
  node.known = true;
  return {};
}

bool OfiFabric::reaches(int peer) const noexcept {
  if (peer == job_.rank()) return false;
  const std::lock_guard lock(lock_);
  if (node(peer).known) return true;
  const Status status = or_no_memory([&] { return read_address(peer, node(peer)); });
  if (status.code() == Code::unsupported)
    log_line(LogLevel::info, job_.rank(), "ofi: not to {}: {}", job_.describe(peer), status.text());
  return status.ok();
}

// For whoever looks for why the peer does not answer.
std::string OfiFabric::way_text(int peer) const {
  const std::string to = address_text(node(peer).address);
  std::string text = endpoint_->info().fabric_attr->prov_name;
  if (!to.empty())
    text += fmt::format(" from {} to {} (WEFT_OFI_INTERFACE chooses others)",
                        list_text({endpoint_->interface()}), to);
  return text;
}

Status OfiFabric::reach(int peer) {
  PeerNode& node = this->node(peer);
  if (node.handle != FI_ADDR_NOTAVAIL) return {};
  if (!node.known)
    if (Status status = read_address(peer, node); !status) return status;
  if (fi_av_insert(endpoint_->av(), node.address.data(), 1, &node.handle, 0, nullptr) != 1) {
    node.handle = FI_ADDR_NOTAVAIL;
    return {Code::corrupt,
            fmt::format("libfabric does not take the address of {}", job_.describe(peer))};
  }
  node.heard_ns = now_ns();
  return {};
}

Status OfiFabric::ask(int peer, int channel, std::uint32_t ring_bytes, SendLaneState*& lane) {
  if (Status status = reach(peer); !status) return status;
  auto made = std::make_unique<SendLaneState>();
  made->peer = peer;
  made->channel = channel;
  made->ring_bytes = ring_bytes;
  made->asked_ns = now_ns();
  const std::size_t number = free_number(send_lanes_);
  if (number >= kGetLane) return {Code::no_memory, "more than 32767 lanes"};
  made->number = static_cast<std::uint32_t>(number);
  make_room(send_lanes_);
  make_room(holding_, send_lanes_.size() + 1 - holding_.size());
  // One page beyond the ring, as the mark that sends the reader back may lie there.
  if (Status status = made->mirror.map(ring_bytes + kPage); !status) return status;
  node(peer).send_lanes[channel] = made.get();
  Status status = take_lane_memory(channel, ring_bytes);
  if (status && endpoint_->has_mode(FI_MR_LOCAL)) {
    status = add(made->mirror.data(), made->mirror.bytes(), FI_SEND, made->registration);
    if (!status) give_lane_memory(channel, ring_bytes);
  }
  if (!status) {
    node(peer).send_lanes.erase(channel);
    return status;
  }
  Control request{};
  request.type = Type::connect;
  request.channel = static_cast<std::uint32_t>(channel);
  request.lane = made->number;
  request.bytes = ring_bytes;
  lane = made.get();
  note_doorbell(writer_doorbell(channel));
  join_lanes(node(peer), channel);
  if (number == send_lanes_.size()) send_lanes_.emplace_back();
  send_lanes_[number] = std::move(made);
  watch(peer);
  send(peer, request);
  return {};
}

Status OfiFabric::connect(int peer, int channel, SendMemory& memory) {
  const std::lock_guard lock(lock_);
  PeerNode& node = this->node(peer);
  if (node.state.load(std::memory_order_relaxed) != PeerState::alive)
    return {Code::peer_lost, fmt::format("{} is lost", job_.describe(peer))};
  SendLaneState* lane = nullptr;
  if (const auto found = node.send_lanes.find(channel); found != node.send_lanes.end()) {
    lane = found->second;
  } else {
    std::uint32_t ring_bytes = memory.ring_bytes;
    if (ring_bytes == 0)
      ring_bytes = static_cast<std::uint32_t>(job_.settings().bytes(Setting::ring_max_bytes));
    const Status status =
        or_no_memory([&] { return ask(peer, channel, std::min(ring_bytes, kMaxRing), lane); });
    if (!status) return status;
  }
  if (lane->state == SendLaneState::asking) {
    if (now_ns() - lane->asked_ns < timeout_ns_) return Code::again;
    return {Code::timed_out,
            fmt::format("{} has not answered {} for {} ms over {}: is a port closed between them?",
                        job_.describe(peer), job_.describe(job_.rank()), timeout_ns_ / 1'000'000,
                        way_text(peer))};
  }
  if (lane->state != SendLaneState::open) {
    const Code code = lane->code;
    drop(send_lanes_[lane->number]);
    return {code, fmt::format("{} refused a lane of {}", job_.describe(peer),
                              job_.describe(job_.rank()))};
  }
  memory.ring = lane->mirror.data();
  memory.consumed = &lane->credit;
  memory.sleeping = &never_;
  memory.ring_bytes = lane->ring_bytes;
  memory.lane = lane;
  memory.can_restart = lane->ring_key != 0;
  return {};
}

Status OfiFabric::accept(int client, int& peer, int& channel, ReceiveMemory& memory) {
  const std::lock_guard lock(lock_);
  peer = -1;
  channel = 0;
  const auto found = std::find_if(arriving_.begin(), arriving_.end(), [&](ReceiveLaneState* lane) {
    return channel_of(lane->channel).client == client;
  });
  if (found == arriving_.end()) return {};
  ReceiveLaneState& lane = **found;
  arriving_.erase(found);
  peer = lane.peer;
  channel = lane.channel;
  memory.ring = lane.ring.data();
  memory.consumed = &lane.consumed;
  memory.sleeping = &never_;
  memory.ring_bytes = lane.ring_bytes;
  memory.arrived = &lane.arrived;
  if (rings_written_) {
    memory.restarted = &lane.restarted;
    memory.told = &lane.told;
  }
  memory.lane = &lane;
  return {};
}

// Tells the lane that sends on this channel and the one the other way round of each other.
void OfiFabric::join_lanes(PeerNode& peer, int channel) noexcept {
  const auto out = peer.send_lanes.find(channel);
  const auto in = peer.receive_lanes.find(reverse_channel(channel));
  if (out == peer.send_lanes.end() || in == peer.receive_lanes.end()) return;
  // The peer may have asked for the same lane before.
  if (out->second->back != nullptr) out->second->back->back = nullptr;
  out->second->back = in->second;
  in->second->back = out->second;
}

void OfiFabric::close_lane(SendLaneState& lane) noexcept {
  if (lane.state == SendLaneState::closed) return;
  lane.state = SendLaneState::closed;
  forget_held(lane);
  if (lane.registration.mr != nullptr) fi_close(&lane.registration.mr->fid);
  lane.registration.mr = nullptr;
}

// The provider may not be done with the memory of a lost peer's lanes: the native endpoints over
// TCP do not close its connection, and if the network comes back, so do late bytes.
void OfiFabric::drop(std::unique_ptr<SendLaneState>& lane) noexcept {
  PeerNode& peer = node(lane->peer);
  close_lane(*lane);
  give_lane_memory(lane->channel, lane->ring_bytes);
  peer.send_lanes.erase(lane->channel);
  if (lane->back != nullptr) lane->back->back = nullptr;
  if (peer.state.load(std::memory_order_relaxed) == PeerState::dead)
    lost_memory_.push_back(std::move(lane->mirror));
  lane.reset();
}

void OfiFabric::drop(std::unique_ptr<ReceiveLaneState>& lane) noexcept {
  give_lane_memory(lane->channel, lane->ring_bytes);
  if (lane->registration.mr != nullptr) fi_close(&lane->registration.mr->fid);
  std::erase(arriving_, lane.get());
  PeerNode& peer = node(lane->peer);
  if (rings_written_) written_lanes_.erase(lane->token);
  if (lane->back != nullptr) lane->back->back = nullptr;
  peer.receive_lanes.erase(lane->channel);
  if (peer.state.load(std::memory_order_relaxed) == PeerState::dead)
    lost_memory_.push_back(std::move(lane->ring));
  lane.reset();
}

void OfiFabric::close_client(int client) noexcept {
  const std::lock_guard lock(lock_);
  for (auto& lane : send_lanes_)
    if (lane != nullptr && channel_of(lane->channel).client == client) drop(lane);
  for (auto& lane : receive_lanes_)
    if (lane != nullptr && channel_of(lane->channel).client == client) drop(lane);
}

void OfiFabric::sign(Control& control, const PeerNode& to) const noexcept {
  control.magic = kMagic;
  control.from = static_cast<std::uint32_t>(job_.rank());
  control.secret = to.secret;
}

void OfiFabric::send(int peer, Control control) noexcept {
  PeerNode& node = this->node(peer);
  if (node.handle == FI_ADDR_NOTAVAIL) return;  // what it has said has just lost it
  sign(control, node);
  if (node.outbox.empty() && try_send(node, control)) return;
  if (node.outbox.empty()) {
    full_outboxes_.push_back(peer);
    node.outbox_stuck_ns = now_ns();  // now_ns_ is of the last poll, if there was one
    node.outbox_retry_ns = 0;
  }
  if (or_no_memory([&] {
        node.outbox.push_back(control);
        return Code::ok;
      }) != Code::ok)
    lose(peer, "cannot be told what it waits for: there is no memory");
}

// False: no room now. Another error shows as silence.
bool OfiFabric::try_send(PeerNode& node, const Control& control) noexcept {
  return fi_inject(endpoint_->ep(), &control, sizeof control, node.handle) != -FI_EAGAIN;
}

void OfiFabric::flush_outboxes() noexcept {
  std::erase_if(full_outboxes_, [this](int peer) {
    PeerNode& node = this->node(peer);
    if (now_ns_ < node.outbox_retry_ns) return false;
    while (!node.outbox.empty()) {
      if (node.handle != FI_ADDR_NOTAVAIL) {
        // What a sign of life says must be true when it leaves, not when it was queued.
        Control& control = node.outbox.front();
        if (control.type == Type::ping || control.type == Type::pong)
          control.bytes = node.posted_bytes;
        if (!try_send(node, control)) {
          // Ever more seldom: to a process that is gone each attempt is a connection refused.
          const std::uint64_t now = now_ns();
          node.outbox_retry_ns = now + (now - node.outbox_stuck_ns) / kRetryShare;
          return false;
        }
      }
      node.outbox_stuck_ns = now_ns();
      node.outbox.pop_front();
    }
    return true;
  });
}

void OfiFabric::on_control(const Control& control, std::span<const std::byte> data) noexcept {
  if (control.magic != kMagic || control.secret != secret_ ||
      control.from >= static_cast<std::uint32_t>(job_.size()) ||
      static_cast<int>(control.from) == job_.rank()) {
    if (!std::exchange(told_stranger_, true))
      log_line(LogLevel::warn, job_.rank(),
               "ofi: refused a message of a stranger, which does not know this job's key (further "
               "ones go unsaid)");
    return;
  }
  const int peer = static_cast<int>(control.from);
  PeerNode& node = this->node(peer);
  if (node.state.load(std::memory_order_relaxed) == PeerState::dead) return;
  if (!data.empty() && control.type != Type::put) return;
  if (Status status = reach(peer); !status) return;
  node.note_heard(now_ns_);
  if (node.outbox.size() + node.waiting_gets.size() > kMaxWaiting)
    return lose(peer, "asks and takes no answers");
  switch (control.type) {
    case Type::connect:
      return on_connect(control);
    case Type::accept:
    case Type::refuse:
      return on_answer(control);
    case Type::ping: {
      check_count(peer, control.bytes);
      Control answer{};
      answer.type = Type::pong;
      answer.bytes = node.posted_bytes;
      return send(peer, answer);
    }
    case Type::pong:
      return check_count(peer, control.bytes);
    case Type::goodbye: {
      Control answer{};
      answer.type = Type::farewell;
      send(peer, answer);
      forget_pushes(peer);
      // release: what it wrote before; pairs with the acquire in state().
      node.state.store(PeerState::left, std::memory_order_release);
      return ring_all();
    }
    case Type::farewell:
      node.farewell = true;
      return;
    case Type::credit:
      return on_credit(control);
    case Type::get:
      return on_get(control);
    case Type::put:
      return on_put(control, data);
    case Type::cas:
    case Type::fetch_add:
      return on_atomic(control);
    case Type::written:
    case Type::value:
    case Type::denied:
      return on_answer_of_owner(control);
    case Type::lost:
      return lose(peer, "takes this process for lost");
  }
}

Status OfiFabric::take_request(const Control& request, ReceiveLaneState*& lane) {
  const int peer = static_cast<int>(request.from);
  if (request.bytes < kPage || request.bytes > kMaxRing || request.bytes % kPage != 0 ||
      request.channel > static_cast<std::uint32_t>(kMaxClients) << 16)
    return Code::bad_argument;
  if (node(peer).receive_lanes.contains(static_cast<int>(request.channel)))
    return {Code::bad_argument, "it has that lane already"};
  // Without random numbers nothing tells what is on its way to an old lane.
  const std::size_t number = tokens_ ? free_number(receive_lanes_) : receive_lanes_.size();
  if (number >= kGetLane) return Code::no_memory;
  auto made = std::make_unique<ReceiveLaneState>();
  made->peer = peer;
  made->channel = static_cast<int>(request.channel);
  made->ring_bytes = static_cast<std::uint32_t>(request.bytes);
  made->writer_lane = request.lane;
  made->token = tokens_ ? static_cast<std::uint32_t>(next_key()) : 0;
  if (rings_written_)
    while (written_lanes_.contains(made->token &= kWriteTokenMask))
      made->token = static_cast<std::uint32_t>(next_key());
  made->number = static_cast<std::uint32_t>(number);
  make_room(receive_lanes_);
  make_room(arriving_);
  auto& by_channel = node(peer).receive_lanes;
  if (Status status = made->ring.map(request.bytes + kPage); !status) return status;
  Status status = or_no_memory([&] {
    by_channel[made->channel] = made.get();
    if (rings_written_) written_lanes_[made->token] = made.get();
    return Code::ok;
  });
  if (status) status = take_lane_memory(made->channel, made->ring_bytes);
  if (status && rings_written_) {
    status = add(made->ring.data(), made->ring.bytes(), FI_REMOTE_WRITE, made->registration);
    if (!status) give_lane_memory(made->channel, made->ring_bytes);
  }
  if (!status) {
    by_channel.erase(made->channel);
    if (rings_written_) written_lanes_.erase(made->token);
    return status;
  }
  lane = made.get();
  if (number == receive_lanes_.size()) receive_lanes_.emplace_back();
  receive_lanes_[number] = std::move(made);
  note_doorbell(reader_doorbell(lane->channel));
  join_lanes(node(peer), reverse_channel(lane->channel));
  return {};
}

void OfiFabric::on_connect(const Control& request) noexcept {
  const int peer = static_cast<int>(request.from);
  Control answer{};
  answer.channel = request.channel;
  answer.other_lane = request.lane;
  ReceiveLaneState* lane = nullptr;
  if (Status status = or_no_memory([&] { return take_request(request, lane); }); !status) {
    log_line(LogLevel::warn, job_.rank(), "ofi: refused a lane of {}: {}", job_.describe(peer),
             status.text());
    answer.type = Type::refuse;
    answer.code = static_cast<std::uint16_t>(status.code());
    return send(peer, answer);
  }
  answer.type = Type::accept;
  answer.address = lane->registration.address;
  answer.key = lane->registration.key;
  answer.compare = lane->token;
  answer.lane = lane->number;
  arriving_.push_back(lane);
  // release: pairs with the acquire of whoever looks before accept().
  connections_.fetch_add(1, std::memory_order_release);
  ring_own(reader_doorbell(lane->channel));
  send(peer, answer);
}

void OfiFabric::on_answer(const Control& answer) noexcept {
  if (answer.other_lane >= send_lanes_.size()) return;
  SendLaneState* lane = send_lanes_[answer.other_lane].get();
  if (lane == nullptr || lane->peer != static_cast<int>(answer.from) ||
      lane->state != SendLaneState::asking || lane->channel != static_cast<int>(answer.channel))
    return;
  if (answer.type == Type::refuse) {
    lane->state = SendLaneState::refused;
    lane->code = answer.code == static_cast<std::uint16_t>(Code::no_memory) ? Code::no_memory
                                                                            : Code::bad_argument;
  } else {
    lane->ring_lane = answer.lane;
    lane->ring_address = answer.address;
    lane->ring_key = answer.key;
    lane->token = static_cast<std::uint32_t>(answer.compare);
    lane->state = SendLaneState::open;
  }
  ring_own(writer_doorbell(lane->channel));
}

}  // namespace weft::ofi
