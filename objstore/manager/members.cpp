// Managers of other hosts, which come and go, and the protocol of two that meet.
//
// Meeting. A meeting of two managers lasts from their first link until one of them has lost its
// links to the other. All that they know of each other belongs to it: holders, leases, asks,
// pushes. One of them may notice a loss that the other one does not, so:
//  1. Of two managers that learned of each other the one with the higher generation connects; a
//     manager that has lost the other connects, too, for ten minutes.
//  2. The first link is the current one: messages are sent over it. Links that come while there is
//     one are spares, and silent. Messages are received from all.
//  3. A meeting begins with a greeting over the current link, `members` with the number of the
//     meeting. A manager counts its meetings, so a number higher than the peer's last one means
//     that the peer has forgotten this manager; any other number means nothing.
//  4. A manager that receives such a number forgets the peer, too. The greeting's link becomes the
//     current one, and the one before is closed.
//  5. A manager that receives a number for the first time greets back with its own meeting's
//  number,
//     though it has sent it before: the peer may have received that in a meeting that it has
//     forgotten since. It ends there, as to the peer it is no new number then.
//  6. When the current link is lost all is forgotten. A spare, if there is one, becomes the current
//     link of a new meeting: a message that was lost with the old one is never waited for.
#include <algorithm>

#include "members.hpp"
#include "objstore/shared/clock.hpp"
#include "objstore/store/log.hpp"
#include "peer/address.hpp"
#include "peer/sockets.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kReconnectNs = 1'000'000'000;
// A lost peer is searched for so long: it may have slept, or its route was gone.
constexpr std::uint64_t kForgetNs = 600'000'000'000;

// Checks that it can be an address; a name is resolved later, again and again.
Status check_address(const std::string& address) {
  peer::NodeAddress of_node;
  peer::SocketAddress of_socket;
  Status status = peer::is_address_text(address)
                      ? peer::from_text(address, of_node)
                      : peer::resolve(address, of_socket, peer::Names::refuse);
  if (status.code() != Code::bad_argument && status.code() != Code::corrupt) return Code::ok;
  return {Code::bad_argument, "--peers " + address + ": " + status.text()};
}

}  // namespace

Status Members::check_peers() const {
  for (const std::string& address : core_.settings.peers)
    if (Status status = check_address(address); !status) return status;
  return Code::ok;
}

const Peer* Members::link(std::uint64_t generation) const {
  const auto found = peers_.find(generation);
  return found != peers_.end() ? &found->second : nullptr;
}

std::uint64_t Members::connected_to(const std::string& address) const {
  const auto known = connected_.find(address);
  if (known == connected_.end()) return 0;
  return known->second == core_.self || has_link(known->second) ? known->second : 0;
}

// --- Links ---

void Members::connect(const std::string& address) {
  if (!connecting_.insert(address).second) return;
  core_.node->connect_async(address, [this, address](const Status& status, const Peer& peer) {
    connecting_.erase(address);
    // The reported address of a manager that has ended is forgotten; one that comes back is
    // reported anew. A manager that was met may be out of reach for a while, unless another listens
    // there now.
    std::erase_if(addresses_, [&](const auto& known) {
      if (known.second != address) return false;
      if (status) return known.first != peer.generation() && !peers_.contains(known.first);
      return status.code() == Code::not_found && !silent_since_ns_.contains(known.first);
    });
    if (status) connected_[address] = peer.generation();
    log_connecting(address, status);
  });
}

// Logs trouble with an address that the user gave, when it differs from the last one.
void Members::log_connecting(const std::string& address, const Status& status) {
  if (std::find(core_.settings.peers.begin(), core_.settings.peers.end(), address) ==
      core_.settings.peers.end())
    return;
  if (status) {
    troubles_.erase(address);
    return;
  }
  if (std::exchange(troubles_[address], status.text()) == status.text()) return;
  write_log(
      LogSeverity::warning,
      "--peers " + address + ": " + printable(status.text()) + "; it is tried again each second",
      {{"event", "peer_unreachable"}, {"address", address}, {"why", printable(status.text())}});
}

void Members::log_version(const Peer& peer, std::uint8_t version) {
  if (!other_versions_.insert(peer.generation()).second) return;
  write_log(LogSeverity::warning,
            "peer '" + printable(peer.name()) + "' speaks version " + std::to_string(version) +
                " of the stores' protocol, and this store version " + std::to_string(kPeerVersion) +
                ": they exchange nothing until both run one release",
            {{"event", "peer_version"},
             {"peer", printable(peer.name())},
             {"version", std::to_string(version)}});
}

// The peer's address as people write it.
std::string Members::address_of(std::uint64_t generation) const {
  for (const auto& [address, connected] : connected_)
    if (connected == generation && !peer::is_address_text(address)) return address;
  const auto known = addresses_.find(generation);
  peer::NodeAddress address;
  if (known == addresses_.end() || !peer::from_text(known->second, address) ||
      address.bootstraps.empty())
    return "an address that it does not report";
  const auto reached =
      std::find_if(address.bootstraps.begin(), address.bootstraps.end(),
                   [](const std::string& one) { return !one.starts_with("unix:"); });
  return reached != address.bootstraps.end() ? *reached : address.bootstraps.front();
}

void Members::connect_missing(std::uint64_t now_ns) {
  if (now_ns < next_connect_ns_) return;
  next_connect_ns_ = now_ns + kReconnectNs;
  forget_silent(now_ns);
  for (const std::string& address : core_.settings.peers) {
    const auto found = connected_.find(address);
    if (found == connected_.end() ||
        (found->second != core_.self && !peers_.contains(found->second)))
      connect(address);
  }
  for (const auto& [generation, address] : addresses_)
    if (!peers_.contains(generation) &&
        (generation < core_.self || silent_since_ns_.contains(generation)))
      connect(address);
}

void Members::forget_silent(std::uint64_t now_ns) {
  std::erase_if(silent_since_ns_, [&](const auto& silent) {
    const auto& [generation, since_ns] = silent;
    if (now_ns - since_ns > kForgetNs) addresses_.erase(generation);
    return !addresses_.contains(generation);
  });
}

void Members::learned(const Member& member) {
  if (member.generation == core_.self || addresses_.size() >= kMaxMembers) return;
  if (addresses_.emplace(member.generation, member.address).second) next_connect_ns_ = 0;
}

void Members::joined(const Peer& peer) {
  const std::uint64_t generation = peer.generation();
  if (core_.is_over || generation == core_.self) return;
  if (peers_.emplace(generation, peer).second)
    meet(generation);
  else
    spares_.push_back(peer);
}

void Members::lost(const Peer& peer, const Status& why) {
  const std::uint64_t generation = peer.generation();
  std::erase(spares_, peer);
  const auto found = peers_.find(generation);
  if (core_.is_over || found == peers_.end() || !(found->second == peer)) return;
  if (stores_.contains(generation))
    write_log(LogSeverity::warning,
              "peer '" + printable(peer.name()) + "' at " + address_of(generation) +
                  " was lost: " + printable(why.text()),
              {{"event", "peer_lost"},
               {"peer", printable(peer.name())},
               {"address", address_of(generation)},
               {"why", printable(why.text())}});
  const auto spare = std::find_if(spares_.begin(), spares_.end(), [&](const Peer& other) {
    return other.generation() == generation && !other.is_lost();
  });
  if (spare != spares_.end()) {
    found->second = *spare;
    spares_.erase(spare);
    user_.forget_peer(generation);
    return meet(generation);
  }
  peers_.erase(found);
  meetings_.erase(generation);
  if (addresses_.contains(generation)) silent_since_ns_[generation] = monotonic_ns();
  // Over a spare link the peer may still be reading; then leases end by their time.
  user_.links_lost(generation);
  user_.forget_peer(generation);
}

// --- Meetings ---

void Members::meet(std::uint64_t generation) {
  meetings_[generation] = {++num_meetings_, 0, silent_since_ns_.erase(generation) != 0};
  greet(generation);
  user_.met(generation);
}

void Members::greet(std::uint64_t generation) {
  PeerMessage message;
  message.kind = PeerKind::members;
  message.number = meetings_.at(generation).number;
  Member self{core_.self, {}};
  if (core_.node->address(self.address)) message.members.push_back(self);
  for (const auto& [known, address] : addresses_)
    if (known != generation && peers_.contains(known) && message.members.size() < kMaxMembers)
      message.members.push_back({known, address});
  send(generation, message);
  user_.greeted(generation);
}

void Members::received_members(const Peer& peer, const PeerMessage& message) {
  const std::uint64_t from = peer.generation();
  if (from == core_.self || !peers_.contains(from)) return;
  const bool was_store = stores_.contains(from);
  bool is_back = false;
  if (message.number > meetings_.at(from).theirs) {
    received_greeting(peer, message.number);
    is_back = std::exchange(meetings_.at(from).was_lost, false);
  }
  for (const Member& member : message.members) {
    if (member.generation == core_.self ||
        (addresses_.size() >= kMaxMembers && !addresses_.contains(member.generation)))
      continue;
    const bool is_new = addresses_.emplace(member.generation, member.address).second;
    // Managers that came while it was away do not know its address yet.
    if (!is_new && !(is_back && member.generation == from)) continue;
    PeerMessage news;
    news.kind = PeerKind::members;
    news.members = {member};
    for (const auto& [generation, other] : peers_)
      if (generation != from && generation != member.generation) send(generation, news);
  }
  next_connect_ns_ = 0;
  if (!was_store && stores_.contains(from))
    write_log(LogSeverity::info,
              "peer '" + printable(peer.name()) + "' at " + address_of(from) + " joined, over " +
                  std::string(peer.fabric()),
              {{"event", "peer_joined"},
               {"peer", printable(peer.name())},
               {"address", address_of(from)},
               {"fabric", std::string(peer.fabric())}});
}

void Members::received_greeting(const Peer& peer, std::uint64_t number) {
  const std::uint64_t from = peer.generation();
  const bool was_forgotten = std::exchange(meetings_.at(from).theirs, number) != 0;
  if (was_forgotten) {
    const Peer before = std::exchange(peers_.at(from), peer);
    if (!(before == peer)) {
      std::erase(spares_, peer);
      core_.node->close(before);
    }
    user_.forget_peer(from);
  }
  greet(from);
  stores_.insert(from);
  {
    const std::lock_guard lock(core_.mutex);
    core_.peer_names.emplace(from, std::pair(peer.name(), std::string(peer.fabric())));
  }
  user_.store_joined(from);
}

// --- Sending ---

void Members::send(std::uint64_t to, const PeerMessage& message) {
  if (to == core_.self) {
    user_.handle(core_.self, message);
    return;
  }
  const auto found = peers_.find(to);
  if (found == peers_.end()) return;  // its meaning is sent again when members change
  outbox_.send(*core_.node, found->second, message);
}

void Outbox::send(Node& node, const Peer& link, const PeerMessage& message) {
  auto outgoing = std::make_unique<Outgoing>();
  outgoing->bytes = encode(message);
  node.send(link, outgoing->bytes.data(), outgoing->bytes.size(), outgoing->operation);
  if (!outgoing->operation.is_done()) outgoing_.push_back(std::move(outgoing));
}

// Most sends complete in their order. All are checked only when they have become twice as many, so
// that a list of thousands costs the same for each, and a slow peer no memory.
void Outbox::forget_sent() {
  const auto is_done = [](const auto& message) { return message->operation.is_done(); };
  while (!outgoing_.empty() && is_done(outgoing_.front())) outgoing_.pop_front();
  if (outgoing_.size() < most_outgoing_) return;
  std::erase_if(outgoing_, is_done);
  most_outgoing_ = std::max<std::size_t>(64, 2 * outgoing_.size());
}

}  // namespace weft::objstore
