// Groups whose long messages the network copies: how their PacketStream forms and what it sends
// along the tree of the group. Repairs are puts, with a tag as blocks have.
#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>
#include <array>

#include "mcast/group/digest.hpp"
#include "mcast/group/group_impl.hpp"
#include "peer/address.hpp"

namespace weft::mcast {

namespace {

// The first address of a member that leads to it through a network.
Status network_address(const std::string& member, peer::SocketAddress& address) {
  if (!peer::is_address_text(member)) return peer::resolve(member, address);
  peer::NodeAddress node;
  if (Status status = peer::from_text(member, node); !status) return status;
  for (const std::string& text : node.bootstraps)
    if (!text.starts_with("unix:")) return peer::resolve(text, address);
  return {Code::unsupported, "its Node does not listen on a network"};
}

}  // namespace

// Forming.

void GroupImpl::open_native() {
  std::size_t num_children = 0;
  for (Neighbor& neighbor : neighbors_)
    if (neighbor.is_child) neighbor.child = num_children++;
  PacketStream::Tree& tree = *this;
  native_ = std::make_unique<PacketStream>(tree, is_root(), num_children);
  ChannelAddress address;
  Status status;
  if (is_one_host_)
    status = {Code::unsupported, "all members are on one host"};
  else if (size() < kLeastCopiedMembers)
    status = {Code::unsupported, "a group of two members has nothing to copy"};
  else
    status = find_address(address);
  if (status == Code::bad_argument) throw Error(status);
  if (status)
    native_->open(address, has_verbs());
  else
    native_->refuse(status);
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
    message.channels = native_->limits();
    // What every member finds is not the fault of one.
    if (const Status& own = native_->why_not(); !own)
      why = is_one_host_ || size() < kLeastCopiedMembers
                ? own.text()
                : fmt::format("{}: {}", name(settings_.self), own.text());
    for (const Neighbor& neighbor : neighbors_) {
      if (!neighbor.is_child) continue;
      message.channels = least_of(message.channels, neighbor.channels);
      if (why.empty()) why = neighbor.why_not;
    }
  }
  if (is_root()) {
    GoMessage message_to_all{{.kind = Kind::go}, 0, {}, 0};
    if (native_ != nullptr) {
      const PacketStream::Start start = native_->choose(message.channels);
      message_to_all.token = start.token;
      message_to_all.channel = start.kind;
      if (start.token == 0 && !why.empty()) native_->refuse({Code::unsupported, why});
    }
    return go(message_to_all);
  }
  if (why.size() > kMaxTextBytes) why.resize(kMaxTextBytes);
  message.text_bytes = static_cast<std::uint32_t>(why.size());
  send_to(*find(parent_), message, std::as_bytes(std::span(why)));
}

Status GroupImpl::native() {
  std::lock_guard guard(multicast_.lock());
  if (native_ == nullptr)
    return {Code::bad_argument,
            fmt::format("group {} is by {}, not native", settings_.id, settings_.algorithm)};
  const Status state = native_->state();
  return state != Code::again
             ? state
             : Status(Code::again, fmt::format("group {} does not know yet", settings_.id));
}

// Messages.

bool GroupImpl::is_copied(std::uint64_t bytes) const {
  return native_ != nullptr && native_->takes(bytes);
}

bool GroupImpl::waits_native() const {
  return native_ != nullptr && !is_over() && is_going_ && native_->needs_time();
}

void GroupImpl::add_waits(std::vector<pollfd>& waits, std::chrono::microseconds& most) const {
  if (!waits_native()) return;
  if (const auto wait = native_->waits_for(Clock::now(), most)) waits.push_back(*wait);
}

bool GroupImpl::advance_native(Clock::time_point now) {
  return native_ != nullptr && is_going_ && native_->advance(now);
}

// Between the stream and the neighbors.

GroupImpl::Neighbor& GroupImpl::child(std::size_t number) {
  return *std::ranges::find_if(neighbors_, [number](const Neighbor& neighbor) {
    return neighbor.is_child && neighbor.child == number;
  });
}

std::string GroupImpl::name_of_child(std::size_t number) const {
  return name(const_cast<GroupImpl*>(this)->child(number).rank);
}

void GroupImpl::wake() { multicast_.make_active(*this); }

void GroupImpl::send_heard() { send_to(*find(parent_), Head{.kind = Kind::heard}); }

void GroupImpl::send_able(std::uint64_t able) {
  send_to(*find(parent_), CountMessage{{.kind = Kind::able}, able});
}

void GroupImpl::send_progress(std::uint64_t packets, std::uint64_t lost) {
  send_to(*find(parent_), ProgressMessage{{.kind = Kind::progress}, packets, lost});
}

void GroupImpl::send_mark(std::uint64_t packets) {
  send_to_children(CountMessage{{.kind = Kind::mark}, packets});
}

void GroupImpl::send_lack(std::uint64_t sequence, std::uint32_t first, Bytes bitmap) {
  LackMessage message{{.kind = Kind::lack}, sequence, first, 0};
  message.text_bytes = static_cast<std::uint32_t>(bitmap.size());
  send_to(*find(parent_), message, bitmap);
}

bool GroupImpl::send_repair(std::size_t number, const PacketStream::Message& copied,
                            std::uint32_t first, std::uint32_t count) {
  if (is_over() || bytes_under_way_ >= kWindowBytes || budget_ == 0) return false;
  Message& message = *message_of(copied.sequence());
  Neighbor& to = child(number);
  const Buffer* buffer = buffer_of(message, to);
  if (buffer == nullptr) return false;  // too small: the group has failed
  const Bytes bytes = copied.packets(first, count);
  budget_ -= std::min(budget_, bytes.size());
  put(message, to, *buffer, static_cast<std::uint64_t>(bytes.data() - copied.data()), bytes.size(),
      first | (count - 1) << (32 - kRunBits));
  return true;
}

void GroupImpl::check_native(const Neighbor& neighbor, const Status& status) {
  if (!status)
    fail(status.code(), neighbor.rank, fmt::format("{} {}", name(neighbor.rank), status.text()));
}

void GroupImpl::on_lack(Neighbor& neighbor, const LackMessage& lack, Bytes bitmap) {
  if (bitmap.size() != lack.text_bytes || !neighbor.buffers.contains(lack.sequence))
    return check_native(neighbor,
                        {Code::corrupt, fmt::format("asks for packets of message {}, which is not "
                                                    "expected",
                                                    lack.sequence)});
  check_native(neighbor, native_->on_lack(neighbor.child, lack.sequence, lack.first, bitmap));
}

void GroupImpl::on_repair(const Neighbor& neighbor, const Message& message, std::uint32_t block) {
  const std::uint32_t first = block & (kMostPackets - 1), count = (block >> (32 - kRunBits)) + 1;
  // Only the parent is asked.
  const std::uint32_t expected = neighbor.rank == parent_ ? count : 0;
  check_native(neighbor, native_->on_repair(message.sequence, first, expected));
}

}  // namespace weft::mcast
