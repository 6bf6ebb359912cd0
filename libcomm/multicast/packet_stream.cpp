// Forming, and what the root does.
#include "multicast/packet_stream.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>

namespace weft::mcast {

namespace {

constexpr auto kProbeFor = std::chrono::milliseconds(500);
constexpr auto kProbeEvery = std::chrono::milliseconds(5);
// Without progress for so long, or kRoundTrips, the last packets are taken for lost.
constexpr auto kStalled = std::chrono::milliseconds(20);
constexpr int kRoundTrips = 4;
// An interface that takes no datagram for so long takes none of this length, or is stuck.
constexpr auto kFullFor = std::chrono::seconds(1);
constexpr std::size_t kBatch = 64;
constexpr std::chrono::microseconds kTick{1000};
// While packets come, a thread that sleeps takes what came meanwhile at once: each by itself would
// cost a wakening. The channel has room for some milliseconds of a fast network.
constexpr std::chrono::microseconds kNap{250};
constexpr auto kComing = std::chrono::milliseconds(2);
constexpr std::uint32_t kMostWindow = 0xffff;

// Sending may go on later.
bool is_queue_full(const Status& status) {
  return status.ok() || status == Code::again || status == Code::no_memory;
}

}  // namespace

AllLimits least_of(const AllLimits& one, const AllLimits& other) {
  AllLimits least = one;
  for (std::size_t kind = 0; kind < kNumChannelKinds; ++kind) {
    least[kind].datagram_max = std::min(one[kind].datagram_max, other[kind].datagram_max);
    least[kind].room = std::min(one[kind].room, other[kind].room);
  }
  return least;
}

PacketStream::Bytes PacketStream::Message::packets(std::uint32_t first,
                                                   std::uint32_t count) const noexcept {
  const std::uint64_t start = std::uint64_t{first} * packet_bytes_;
  return {data_ + start, std::min(std::uint64_t{count} * packet_bytes_, bytes_ - start)};
}

PacketStream::PacketStream(Tree& tree, bool is_root, std::size_t num_children)
    : tree_(tree), is_root_(is_root), children_(num_children) {}

// Forming.

void PacketStream::open(const ChannelAddress& address, bool may_use_verbs) {
  const auto of = [&](ChannelKind kind) -> auto& {
    return channels_[static_cast<std::size_t>(kind)];
  };
  why_not_ = open_udp_channel(address, is_root_, of(ChannelKind::udp));
  if (!may_use_verbs) return;
  const Status status = open_ud_channel(address, is_root_, of(ChannelKind::ud));
  if (!status && !why_not_)
    why_not_ = {Code::unsupported, fmt::format("{}; {}", why_not_.text(), status.text())};
}

AllLimits PacketStream::limits() const {
  AllLimits limits{};
  for (std::size_t kind = 0; kind < kNumChannelKinds; ++kind)
    if (const Channel* channel = channels_[kind].get(); channel != nullptr)
      limits[kind] = {
          static_cast<std::uint32_t>(channel->datagram_max()),
          static_cast<std::uint32_t>(std::min<std::size_t>(channel->room(), kMostWindow))};
  return limits;
}

PacketStream::Start PacketStream::choose(const AllLimits& all) {
  Start start;
  const auto usable = std::ranges::find_if(
      all, [](const ChannelLimits& limits) { return limits.datagram_max > sizeof(PacketHead); });
  if (usable == all.end()) return start;
  start.kind = static_cast<ChannelKind>(usable - all.begin());
  while (start.token == 0) ::randombytes_buf(&start.token, sizeof start.token);
  packet_bytes_ = usable->datagram_max - static_cast<std::uint32_t>(sizeof(PacketHead));
  // Other datagrams, and the time until a thread looks, need some of the room.
  ahead_ = Window(usable->room - usable->room / 4);
  return start;
}

void PacketStream::start(const Start& start) {
  token_ = start.token;
  if (const auto kind = static_cast<std::size_t>(start.kind);
      start.token != 0 && kind < kNumChannelKinds)
    channel_ = std::move(channels_[kind]);
  for (auto& channel : channels_) channel.reset();
  if (channel_ == nullptr) {
    if (why_not_.ok()) why_not_ = {Code::unsupported, "another member can receive no datagrams"};
    return turn_off(why_not_);
  }
  state_ = State::probing;
  next_probe_ = Clock::now();
  probe_until_ = next_probe_ + kProbeFor;
}

void PacketStream::turn_off(const Status& why) {
  state_ = State::off;
  why_not_ = why;
  tree_.wake();
}

Status PacketStream::state() const {
  if (state_ == State::on) return {};
  return state_ == State::off ? why_not_ : Status(Code::again);
}

bool PacketStream::probe(Clock::time_point now) {
  const auto deaf = std::ranges::find(children_, false, &Child::has_heard);
  if (deaf == children_.end()) {
    state_ = State::on;
    full_since_.reset();
    return true;
  }
  if (now >= probe_until_) {
    const auto time = std::chrono::milliseconds(kProbeFor).count();
    turn_off({Code::unsupported,
              full_since_ ? fmt::format("the queue of the root's interface took no datagram of {} "
                                        "bytes within {} ms",
                                        packet_bytes_ + sizeof(PacketHead), time)
                          : fmt::format("{}, or one below it, heard no datagram within {} ms",
                                        tree_.name_of_child(
                                            static_cast<std::size_t>(deaf - children_.begin())),
                                        time)});
    return true;
  }
  if (now < next_probe_) return false;
  next_probe_ = now + kProbeEvery;
  const PacketHead head{token_, kProbe, 0, 0};
  // As long as a packet, as a network may bring short ones alone.
  const std::vector<std::byte> body(packet_bytes_);
  const Channel::Datagram datagram{std::as_bytes(std::span(&head, 1)), body};
  Status status;
  if (channel_->send({&datagram, 1}, status) > 0)
    full_since_.reset();
  else if (!full_since_)
    full_since_ = now;
  if (!is_queue_full(status)) turn_off(status);
  return true;
}

// Messages.

bool PacketStream::takes(std::uint64_t bytes) const noexcept {
  return state_ != State::off && packet_bytes_ > 0 && bytes >= kLeastCopiedBytes &&
         bytes / packet_bytes_ < kMostPackets;
}

bool PacketStream::may_receive(std::uint64_t bytes, std::uint32_t packet_bytes) const noexcept {
  return channel_ != nullptr && bytes > 0 && packet_bytes > 0 &&
         packet_bytes + sizeof(PacketHead) <= channel_->datagram_max() &&
         bytes / packet_bytes < kMostPackets;
}

const PacketStream::Message& PacketStream::add(std::uint64_t sequence, std::uint64_t bytes,
                                               std::uint32_t packet_bytes, std::byte* data) {
  Message& message = *messages_.emplace_back(std::make_unique<Message>());
  message.sequence_ = sequence;
  message.bytes_ = bytes;
  message.data_ = data;
  message.packet_bytes_ = packet_bytes;
  message.num_packets_ = static_cast<std::uint32_t>((bytes + packet_bytes - 1) / packet_bytes);
  message.first_ = num_announced_;
  num_announced_ += message.num_packets_;
  if (is_root_) {
    message.num_received_ = message.num_packets_;
  } else {
    message.here_ = PacketSet(message.num_packets_);
    message.asked_ = PacketSet(message.num_packets_);
  }
  if (data != nullptr) note_able();
  return message;
}

void PacketStream::set_buffer(std::uint64_t sequence, std::byte* data) {
  Message* message = find(sequence);
  if (message == nullptr) return;
  message->data_ = data;
  note_able();
}

void PacketStream::drop_first() {
  messages_.pop_front();
  if (!messages_.empty()) return;
  // All is there, whether or not its reports are; the time until the next message tells nothing.
  num_there_ = num_sent_;
  timed_ = 0;
}

bool PacketStream::has(std::uint64_t from, std::uint64_t to) const noexcept {
  return std::ranges::any_of(
      messages_, [&](const auto& item) { return item->sequence_ >= from && item->sequence_ < to; });
}

PacketStream::Message* PacketStream::find(std::uint64_t sequence) {
  const auto found = std::ranges::find_if(
      messages_, [&](const auto& item) { return item->sequence_ == sequence; });
  return found == messages_.end() ? nullptr : found->get();
}

std::uint64_t PacketStream::least_with_children(std::uint64_t own,
                                                std::uint64_t Child::*count) const {
  for (const Child& child : children_) own = std::min(own, child.*count);
  return own;
}

std::uint64_t PacketStream::most_lost(std::uint64_t own) const {
  for (const Child& child : children_) own = std::max(own, child.num_lost);
  return own;
}

void PacketStream::note_able() {
  for (const auto& item : messages_) {
    if (item->sequence_ < num_able_) continue;
    if (!item->has_buffer()) break;
    num_able_ = item->sequence_ + 1;
  }
  const std::uint64_t least = least_with_children(num_able_, &Child::num_able);
  if (least <= num_all_able_) return;
  num_all_able_ = least;
  if (is_root_)
    tree_.wake();
  else if (state_ != State::off)
    tree_.send_able(least);
}

void PacketStream::on_able(std::size_t child, std::uint64_t able) {
  children_[child].num_able = able;
  note_able();
}

// Sending.

bool PacketStream::send_packets(Clock::time_point now) {
  waits_for_queue_ = false;
  bool any = false;
  for (const auto& item : messages_) {
    Message& message = *item;
    if (message.num_sent_ == message.num_packets_) continue;
    if (num_all_able_ <= message.sequence_) break;
    if (state_ == State::off) {
      num_sent_ += message.num_packets_ - message.num_sent_;
      message.num_sent_ = message.num_packets_;
    } else if (!send_packets(message, now)) {
      break;
    }
    any = true;
    if (message.num_sent_ < message.num_packets_) break;
    send_mark(num_sent_);
  }
  const auto patience = std::max<Clock::duration>(kStalled, kRoundTrips * round_trip_);
  if (num_sent_ > num_there_ && now - last_progress_ > patience) send_mark(num_sent_);
  return any;
}

// False: none can go now.
bool PacketStream::send_packets(Message& message, Clock::time_point now) {
  bool any = false;
  while (message.num_sent_ < message.num_packets_) {
    const std::uint64_t ahead = num_sent_ - num_there_;
    const std::uint32_t window = ahead_.size();
    if (ahead >= window) break;
    std::array<PacketHead, kBatch> heads;
    std::array<Channel::Datagram, kBatch> datagrams;
    std::size_t count = 0;
    for (std::uint32_t packet = message.num_sent_;
         packet < message.num_packets_ && count < kBatch && ahead + count < window;
         ++packet, ++count) {
      heads[count] = {token_, packet, static_cast<std::uint16_t>(message.sequence_),
                      static_cast<std::uint16_t>(window)};
      datagrams[count] = {std::as_bytes(std::span(&heads[count], 1)), message.packets(packet, 1)};
    }
    Status status;
    const std::size_t num_sent = channel_->send(std::span(datagrams).first(count), status);
    if (num_sent > 0) {
      // The time without progress begins when there is something to wait for.
      if (ahead == 0) last_progress_ = now;
      message.num_sent_ += static_cast<std::uint32_t>(num_sent);
      num_sent_ += num_sent;
      full_since_.reset();
      if (timed_ == 0) {
        timed_ = num_sent_;
        timed_at_ = now;
      }
      any = true;
    }
    if (num_sent == count) continue;
    waits_for_queue_ = status == Code::again;
    if (is_queue_full(status) && !full_since_) full_since_ = now;
    if (is_queue_full(status) && now - *full_since_ > kFullFor)
      status = {Code::unsupported,
                fmt::format("the queue of the root's interface has been full for {} s",
                            kFullFor.count())};
    if (is_queue_full(status)) break;
    turn_off(status);
    return true;
  }
  return any;
}

bool PacketStream::note_progress(Clock::time_point now) {
  // Of datagrams that the interface has refused members of this host may have a copy.
  const std::uint64_t there = least_with_children(num_sent_, &Child::num_sent);
  if (there <= num_there_) return false;
  const std::uint64_t lost = most_lost(0);
  const bool drops_most =
      ahead_.on_progress(there - num_there_, lost - std::min(lost, num_lost_there_));
  num_there_ = there;
  num_lost_there_ = lost;
  last_progress_ = now;
  if (timed_ > 0 && there >= timed_) {
    round_trip_ = (7 * round_trip_ + (now - timed_at_)) / 8;
    timed_ = 0;
  }
  if (drops_most && state_ == State::on)
    turn_off({Code::unsupported, "the network drops most packets"});
  return true;
}

Status PacketStream::on_progress(std::size_t child, std::uint64_t packets, std::uint64_t lost) {
  // A count that no packet explains would let the root run ahead.
  if (packets > num_announced_ || packets < children_[child].num_sent)
    return {Code::corrupt, fmt::format("reports {} packets after {}, of {}", packets,
                                       children_[child].num_sent, num_announced_)};
  children_[child].num_sent = packets;
  children_[child].num_lost = lost;
  tree_.wake();
  return {};
}

void PacketStream::send_mark(std::uint64_t count) {
  if (count <= mark_) return;
  mark_ = count;
  tree_.send_mark(count);
}

// Waiting.

bool PacketStream::needs_time() const noexcept {
  return state_ == State::probing || !messages_.empty();
}

std::optional<pollfd> PacketStream::waits_for(Clock::time_point now,
                                              std::chrono::microseconds& most) const {
  if (!needs_time() || channel_ == nullptr) return {};
  const bool is_coming = !is_root_ && now - last_heard_ < kComing;
  most = std::min(most, is_coming ? kNap : kTick);
  if (is_coming || (is_root_ && !waits_for_queue_)) return {};
  return channel_->waits_for();
}

bool PacketStream::advance(Clock::time_point now) {
  bool any = false;
  if (is_root_) {
    if (state_ == State::probing) any |= probe(now);
    any |= note_progress(now);
    any |= send_packets(now);
  } else if (channel_ != nullptr) {
    any |= receive_packets(now);
  }
  any |= repair();
  return any;
}

}  // namespace weft::mcast
