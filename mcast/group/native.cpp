// Messages that the network copies, at the root: whether it does, and how fast they go.
//
// When all members have joined and can receive datagrams of one kind, the root sends probes until
// every member has heard one; members that hear none in time leave the group to the pipeline. A
// long message is announced, and once all have buffers the root sends its packets once, in order,
// at most a window (native/window.hpp) ahead of the slowest receiver. What a receiver lacks it gets
// from its parent in the tree (native_packets.cpp), so that the root repairs for its children
// alone. Acknowledgements are the least of a subtree, and come some times a window.
#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>
#include <array>

#include "mcast/group/digest.hpp"
#include "mcast/group/group_impl.hpp"
#include "peer/address.hpp"

namespace weft::mcast {

namespace {

constexpr std::uint64_t kLeastBytes = 256 << 10;  // below it announcing takes longer than sending
constexpr int kLeastMembers = 3;
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

// The first address of a member that leads to it through a network.
Status network_address(const std::string& member, peer::SocketAddress& address) {
  if (!peer::is_address_text(member)) return peer::resolve(member, address);
  peer::NodeAddress node;
  if (Status status = peer::from_text(member, node); !status) return status;
  for (const std::string& text : node.bootstraps)
    if (!text.starts_with("unix:")) return peer::resolve(text, address);
  return {Code::unsupported, "its Node does not listen on a network"};
}

// Sending may go on later.
bool is_queue_full(const Status& status) {
  return status.ok() || status == Code::again || status == Code::no_memory;
}

}  // namespace

// Forming.

void GroupImpl::open_native() {
  native_ = std::make_unique<Native>();
  ChannelAddress address;
  Status status;
  if (is_one_host_)
    status = {Code::unsupported, "all members are on one host"};
  else if (size() < kLeastMembers)
    status = {Code::unsupported, "a group of two members has nothing to copy"};
  else
    status = find_address(address);
  if (status == Code::bad_argument) throw Error(status);
  if (!status) {
    native_->why_not = status;
    return;
  }
  const auto of = [&](ChannelKind kind) -> auto& {
    return native_->channels[static_cast<std::size_t>(kind)];
  };
  native_->why_not = open_udp_channel(address, is_root(), of(ChannelKind::udp));
  if (!has_verbs()) return;
  status = open_ud_channel(address, is_root(), of(ChannelKind::ud));
  if (!status && !native_->why_not)
    native_->why_not = {Code::unsupported,
                        fmt::format("{}; {}", native_->why_not.text(), status.text())};
}

// The Node may use the fabric of that name, and has a device for it.
bool GroupImpl::has_verbs() const {
  std::string text;
  peer::NodeAddress own;
  return multicast_.node().address(text).ok() && peer::from_text(text, own).ok() &&
         std::ranges::find(own.fabrics, "verbs", &peer::NodeAddress::OnFabric::fabric) !=
             own.fabrics.end();
}

Status GroupImpl::find_address(ChannelAddress& address) const {
  Status status;
  // The way to the root; at the root to a member of another host, if there is one.
  for (int rank = is_root() ? 1 : 0; rank < (is_root() ? size() : 1); ++rank) {
    peer::SocketAddress other;
    status = network_address(settings_.members[static_cast<std::size_t>(rank)], other);
    if (status) status = local_towards(other, address.local);
    if (!status)
      return {Code::unsupported, fmt::format("no network to {}: {}", name(rank), status.text())};
    if (!is_same_host(other, address.local)) break;
  }
  std::array<std::uint8_t, 16> seed = digest(settings_.members);
  for (std::size_t i = 0; i < sizeof settings_.id; ++i)
    seed[i] ^= static_cast<std::uint8_t>(settings_.id >> (8 * (sizeof settings_.id - 1 - i)));
  crypto_generichash(seed.data(), seed.size(), seed.data(), seed.size(), nullptr, 0);
  return multicast_address(settings_.multicast_address, address.local, seed, address.group);
}

void GroupImpl::send_joined() {
  JoinedMessage message{{.kind = Kind::joined}, {}};
  std::string why;
  if (native_ != nullptr) {
    for (std::size_t kind = 0; kind < kNumChannelKinds; ++kind) {
      JoinedMessage::Limits& least = message.channels[kind];
      if (const Channel* channel = native_->channels[kind].get(); channel != nullptr)
        least = {static_cast<std::uint32_t>(channel->datagram_max()),
                 static_cast<std::uint32_t>(std::min<std::size_t>(channel->room(), kMostWindow))};
      for (const Neighbor& neighbor : neighbors_) {
        if (!neighbor.is_child) continue;
        least.datagram_max = std::min(least.datagram_max, neighbor.channels[kind].datagram_max);
        least.room = std::min(least.room, neighbor.channels[kind].room);
      }
    }
    // What every member finds is not the fault of one.
    if (!native_->why_not && (is_one_host_ || size() < kLeastMembers))
      why = native_->why_not.text();
    else if (!native_->why_not)
      why = fmt::format("{}: {}", name(settings_.self), native_->why_not.text());
    for (const Neighbor& neighbor : neighbors_)
      if (why.empty() && neighbor.is_child) why = neighbor.why_not;
  }
  if (is_root()) {
    GoMessage message_to_all{{.kind = Kind::go}, 0, {}, 0};
    if (native_ != nullptr && !begin_native(message, message_to_all) && !why.empty())
      native_->why_not = {Code::unsupported, why};
    return go(message_to_all);
  }
  if (why.size() > kMaxTextBytes) why.resize(kMaxTextBytes);
  message.text_bytes = static_cast<std::uint32_t>(why.size());
  send_to(*find(parent_), message, std::as_bytes(std::span(why)));
}

// False: there is no kind of datagrams that all members can receive.
bool GroupImpl::begin_native(const JoinedMessage& all, GoMessage& go) {
  const auto usable = std::ranges::find_if(
      all.channels, [](const auto& limits) { return limits.datagram_max > sizeof(PacketHead); });
  if (usable == all.channels.end()) return false;
  go.channel = static_cast<ChannelKind>(usable - all.channels.begin());
  while (go.token == 0) ::randombytes_buf(&go.token, sizeof go.token);
  native_->packet_bytes = usable->datagram_max - static_cast<std::uint32_t>(sizeof(PacketHead));
  // Other datagrams, and the time until a thread looks, need some of the room.
  native_->ahead = Window(usable->room - usable->room / 4);
  return true;
}

void GroupImpl::go_native(const GoMessage& message) {
  native_->token = message.token;
  if (const auto kind = static_cast<std::size_t>(message.channel);
      message.token != 0 && kind < kNumChannelKinds)
    native_->channel = std::move(native_->channels[kind]);
  for (auto& channel : native_->channels) channel.reset();
  if (native_->channel == nullptr) {
    if (native_->why_not.ok())
      native_->why_not = {Code::unsupported, "another member can receive no datagrams"};
    return give_up_native(native_->why_not);
  }
  native_->state = NativeState::probing;
  native_->next_probe = Clock::now();
  native_->probe_until = native_->next_probe + kProbeFor;
}

void GroupImpl::give_up_native(const Status& why) {
  native_->state = NativeState::off;
  native_->why_not = why;
  multicast_.make_active(*this);
}

Status GroupImpl::native() {
  std::lock_guard guard(multicast_.lock());
  if (native_ == nullptr)
    return {Code::bad_argument,
            fmt::format("group {} is by {}, not native", settings_.id, settings_.algorithm)};
  switch (native_->state) {
    case NativeState::on:
      return {};
    case NativeState::off:
      return native_->why_not;
    default:
      return {Code::again, fmt::format("group {} does not know yet", settings_.id)};
  }
}

bool GroupImpl::probe(Clock::time_point now) {
  Native& native = *native_;
  const auto deaf = std::ranges::find_if(neighbors_, [](const Neighbor& neighbor) {
    return neighbor.is_child && !neighbor.has_heard;
  });
  if (deaf == neighbors_.end()) {
    native.state = NativeState::on;
    native.full_since.reset();
    return true;
  }
  if (now >= native.probe_until) {
    give_up_native(
        {Code::unsupported,
         native.full_since
             ? fmt::format(
                   "the queue of the root's interface took no datagram of {} bytes within {} ms",
                   native.packet_bytes + sizeof(PacketHead),
                   std::chrono::milliseconds(kProbeFor).count())
             : fmt::format("{}, or one below it, heard no datagram within {} ms", name(deaf->rank),
                           std::chrono::milliseconds(kProbeFor).count())});
    return true;
  }
  if (now < native.next_probe) return false;
  native.next_probe = now + kProbeEvery;
  const PacketHead head{native.token, kProbe, 0, 0};
  // As long as a packet, as a network may bring short ones alone.
  const std::vector<std::byte> body(native.packet_bytes);
  const Channel::Datagram datagram{std::as_bytes(std::span(&head, 1)), body};
  Status status;
  if (native.channel->send({&datagram, 1}, status) > 0)
    native.full_since.reset();
  else if (!native.full_since)
    native.full_since = now;
  if (!is_queue_full(status)) give_up_native(status);
  return true;
}

// Sending.

bool GroupImpl::is_copied(std::uint64_t bytes) const {
  return native_ != nullptr && native_->state != NativeState::off && bytes >= kLeastBytes &&
         bytes / native_->packet_bytes < kMostPackets;
}

bool GroupImpl::can_be_copied(const Arrival& arrival) const {
  return native_ != nullptr && native_->channel != nullptr && arrival.bytes > 0 &&
         arrival.packet_bytes + sizeof(PacketHead) <= native_->channel->datagram_max() &&
         arrival.bytes / arrival.packet_bytes < kMostPackets;
}

void GroupImpl::add_copied(Message& message) {
  message.copied = std::make_unique<Copied>();
  message.copied->first = native_->num_announced;
  native_->num_announced += message.num_blocks;
  if (is_root()) return;
  message.copied->here = PacketSet(message.num_blocks);
  message.copied->asked = PacketSet(message.num_blocks);
}

bool GroupImpl::send_packets(Clock::time_point now) {
  Native& native = *native_;
  native.waits_for_queue = false;
  bool any = false;
  for (const auto& item : messages_) {
    Message& message = *item;
    if (message.copied == nullptr || message.copied->num_sent == message.num_blocks) continue;
    if (native.num_all_able <= message.sequence) break;
    if (native.state == NativeState::off) {
      native.num_sent += message.num_blocks - message.copied->num_sent;
      message.copied->num_sent = message.num_blocks;
    } else if (!send_packets(message, now)) {
      break;
    }
    any = true;
    if (message.copied->num_sent < message.num_blocks) break;
    send_mark(native.num_sent);
  }
  const auto patience = std::max<Clock::duration>(kStalled, kRoundTrips * native.round_trip);
  if (native.num_sent > native.num_there && now - native.last_progress > patience)
    send_mark(native.num_sent);
  return any;
}

// False: none can go now.
bool GroupImpl::send_packets(Message& message, Clock::time_point now) {
  Native& native = *native_;
  bool any = false;
  while (message.copied->num_sent < message.num_blocks) {
    const std::uint64_t ahead = native.num_sent - native.num_there;
    const std::uint32_t window = native.ahead.size();
    if (ahead >= window) break;
    std::array<PacketHead, kBatch> heads;
    std::array<Channel::Datagram, kBatch> datagrams;
    std::size_t count = 0;
    for (std::uint32_t packet = message.copied->num_sent;
         packet < message.num_blocks && count < kBatch && ahead + count < window;
         ++packet, ++count) {
      heads[count] = {native.token, packet, static_cast<std::uint16_t>(message.sequence),
                      static_cast<std::uint16_t>(window)};
      datagrams[count] = {std::as_bytes(std::span(&heads[count], 1)), packet_of(message, packet)};
    }
    Status status;
    const std::size_t num_sent = native.channel->send(std::span(datagrams).first(count), status);
    if (num_sent > 0) {
      // The time without progress begins when there is something to wait for.
      if (ahead == 0) native.last_progress = now;
      message.copied->num_sent += static_cast<std::uint32_t>(num_sent);
      native.num_sent += num_sent;
      native.full_since.reset();
      if (native.timed == 0) {
        native.timed = native.num_sent;
        native.timed_at = now;
      }
      any = true;
    }
    if (num_sent == count) continue;
    native.waits_for_queue = status == Code::again;
    if (is_queue_full(status) && !native.full_since) native.full_since = now;
    if (is_queue_full(status) && now - *native.full_since > kFullFor)
      status = {Code::unsupported,
                fmt::format("the queue of the root's interface has been full for {} s",
                            kFullFor.count())};
    if (is_queue_full(status)) break;
    give_up_native(status);
    return true;
  }
  return any;
}

bool GroupImpl::note_progress(Clock::time_point now) {
  Native& native = *native_;
  // Of datagrams that the interface has refused members of this host may have a copy.
  const std::uint64_t there = least_with_children(native.num_sent, &Neighbor::num_sent);
  if (there <= native.num_there) return false;
  std::uint64_t lost = 0;
  for (const Neighbor& neighbor : neighbors_)
    if (neighbor.is_child) lost = std::max(lost, neighbor.num_lost);
  const bool drops_most = native.ahead.on_progress(there - native.num_there,
                                                   lost - std::min(lost, native.num_lost_there));
  native.num_there = there;
  native.num_lost_there = lost;
  native.last_progress = now;
  if (native.timed > 0 && there >= native.timed) {
    native.round_trip = (7 * native.round_trip + (now - native.timed_at)) / 8;
    native.timed = 0;
  }
  if (drops_most && native.state == NativeState::on)
    give_up_native({Code::unsupported, "the network drops most packets"});
  return true;
}

void GroupImpl::send_mark(std::uint64_t count) {
  if (count <= native_->mark) return;
  native_->mark = count;
  send_to_children(CountMessage{{.kind = Kind::mark}, count});
}

// Waiting.

bool GroupImpl::waits_native() const {
  if (native_ == nullptr || is_over() || !is_going_) return false;
  return native_->state == NativeState::probing ||
         std::ranges::any_of(messages_, [](const auto& item) { return item->copied != nullptr; });
}

void GroupImpl::add_waits(std::vector<pollfd>& waits, std::chrono::microseconds& most) const {
  if (!waits_native() || native_->channel == nullptr) return;
  const Native& native = *native_;
  if (is_root()) {
    if (native.waits_for_queue) waits.push_back(native.channel->waits_for());
    most = std::min(most, kTick);
  } else if (Clock::now() - native.last_heard < kComing) {
    most = std::min(most, kNap);
  } else {
    waits.push_back(native.channel->waits_for());
    most = std::min(most, kTick);
  }
}

bool GroupImpl::advance_native(Clock::time_point now, std::size_t& budget) {
  if (native_ == nullptr || !is_going_) return false;
  bool any = false;
  if (is_root()) {
    if (native_->state == NativeState::probing) any |= probe(now);
    any |= note_progress(now);
    any |= send_packets(now);
  } else if (native_->channel != nullptr) {
    any |= receive_packets(now);
  }
  if (!is_over()) any |= repair(budget);
  return any;
}

}  // namespace weft::mcast
