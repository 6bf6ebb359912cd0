#include "tools/weft-switch/bridge.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::innet {
namespace {

// The header before every frame: the work that the kernel has left to the network card, which is
// left to the next one when the frame is passed on: linux/virtio_net.h, struct virtio_net_hdr,
// which C++ cannot include.
constexpr std::size_t kOffloadBytes = 10;
// With segmentation left to the card a frame is up to 64 KiB long.
constexpr std::size_t kRoomBytes = kOffloadBytes + (1 << 16) + 256;
constexpr std::size_t kMostLearned = 1 << 16;
constexpr int kMostReads = 64;  // of one interface before the others are read
constexpr int kInterfaceBytes = 4 << 20;
constexpr std::size_t kArpBytes = 28;
constexpr std::uint16_t kArpRequest = 1, kArpReply = 2;
// This side's UDP port: in the range that RoCEv2 reserves for it.
constexpr std::uint16_t kSourcePort = 0xc001;

std::uint32_t get(const std::byte* from, std::size_t bytes) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<std::uint32_t>(from[i]);
  return value;
}
void put_number(std::byte* to, std::uint64_t value, std::size_t bytes) noexcept {
  for (std::size_t i = bytes; i-- > 0; value >>= 8) to[i] = static_cast<std::byte>(value);
}
std::uint64_t number(const std::byte* mac) noexcept {
  return std::uint64_t{get(mac, 2)} << 32 | get(mac + 2, 4);
}

void write_ethernet(std::byte* frame, const Mac& to, const Mac& from, std::uint16_t type) noexcept {
  std::memcpy(frame, to.data(), 6);
  std::memcpy(frame + 6, from.data(), 6);
  put_number(frame + 12, type, 2);
}

void write_arp(std::byte* arp, std::uint16_t operation, const Mac& mac, std::uint32_t ipv4,
               const Mac& other_mac, std::uint32_t other_ipv4) noexcept {
  put_number(arp, 1, 2);  // Ethernet
  put_number(arp + 2, ETHERTYPE_IP, 2);
  put_number(arp + 4, 0x0604, 2);  // lengths of the addresses
  put_number(arp + 6, operation, 2);
  std::memcpy(arp + 8, mac.data(), 6);
  put_number(arp + 14, ipv4, 4);
  std::memcpy(arp + 18, other_mac.data(), 6);
  put_number(arp + 24, other_ipv4, 4);
}

}  // namespace

Bridge::Bridge() : room_(std::make_unique<std::byte[]>(kRoomBytes)) {}

Bridge::~Bridge() {
  for (const Interface& one : interfaces_)
    if (one.fd >= 0) ::close(one.fd);
}

Status Bridge::open_packet_socket(const std::string& name, Interface& interface) {
  const unsigned index = if_nametoindex(name.c_str());
  if (index == 0) return {Code::not_found, fmt::format("there is no interface {}", name)};
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return {Code::not_permitted, fmt::format("no packet socket to be had: {}; it takes CAP_NET_RAW",
                                             std::strerror(errno))};
  interface.fd = fd;
  const int on = 1;
  packet_mreq all{};
  all.mr_ifindex = static_cast<int>(index);
  all.mr_type = PACKET_MR_PROMISC;
  sockaddr_ll own{};
  own.sll_family = AF_PACKET;
  own.sll_ifindex = static_cast<int>(index);
  own.sll_protocol = htons(ETH_P_ALL);
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kInterfaceBytes, sizeof kInterfaceBytes);
  // Ignore frames that this socket itself, or this machine, sends there.
  (void)setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
  if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
      bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0)
    return {Code::not_permitted,
            fmt::format("cannot read interface {}: {}", name, std::strerror(errno))};
  return {};
}

Status Bridge::add_interface(const std::string& name, Use use, Io io) {
  Interface& interface = interfaces_.emplace_back();
  interface.is_trunk = use != Use::hosts;
  interface.forwards = use != Use::trunk;
  if (const Status opened = open_packet_socket(name, interface); !opened) return opened;
  if (io == Io::packet) return {};
  interface.xdp = std::make_unique<XdpPort>();
  const Status opened = interface.xdp->open(name, mac_, ipv4_, io == Io::xdp_driver);
  if (opened) return {};
  return {opened.code(), fmt::format("no AF_XDP at interface {}: {}; --io packet does without",
                                     name, opened.text())};
}

void Bridge::set_address(std::uint32_t ipv4) noexcept {
  ipv4_ = ipv4;
  mac_ = {0x02, 0x57};  // locally administered, unicast
  for (std::size_t i = 0; i < 4; ++i) mac_[2 + i] = static_cast<std::uint8_t>(ipv4 >> (24 - 8 * i));
}

void Bridge::put(std::uint16_t interface, std::span<const std::byte> with_offload) {
  // A frame that cannot be sent is lost, as on any wire.
  (void)!::send(interfaces_[interface - 1u].fd, with_offload.data(), with_offload.size(),
                MSG_DONTWAIT);
}

void Bridge::forward(std::uint16_t ingress, std::span<const std::byte> with_offload) {
  const std::byte* frame = with_offload.data() + kOffloadBytes;
  const auto known = learned_.find(number(frame));
  if (known != learned_.end()) {
    if (known->second != ingress && interfaces_[known->second - 1u].forwards) {
      ++counters_.forwarded;
      put(known->second, with_offload);
    }
    return;
  }
  ++counters_.flooded;
  for (std::uint16_t i = 1; i <= interfaces_.size(); ++i)
    if (i != ingress && interfaces_[i - 1u].forwards) put(i, with_offload);
}

void Bridge::ask_for(std::uint32_t ipv4) {
  std::byte frame[kOffloadBytes + kEthernetBytes + kArpBytes] = {};
  Mac all;
  all.fill(0xff);
  write_ethernet(frame + kOffloadBytes, all, mac_, ETHERTYPE_ARP);
  write_arp(frame + kOffloadBytes + kEthernetBytes, kArpRequest, mac_, ipv4_, Mac{}, ipv4);
  for (std::uint16_t i = 1; i <= interfaces_.size(); ++i)
    if (interfaces_[i - 1u].is_trunk) put(i, frame);
}

void Bridge::meet(std::uint32_t ipv4, std::uint16_t ingress, const std::byte* mac, bool is_switch) {
  const std::uint64_t place = key(ipv4, is_switch ? 0 : ingress);
  if (neighbours_.size() >= kMostLearned && !neighbours_.contains(place)) return;
  Neighbour& neighbour = neighbours_[place];
  std::memcpy(neighbour.mac.data(), mac, 6);
  neighbour.ingress = ingress;
}

void Bridge::take_arp(std::uint16_t ingress, std::span<const std::byte> frame) {
  if (frame.size() < kEthernetBytes + kArpBytes) return;
  const std::byte* arp = frame.data() + kEthernetBytes;
  if (get(arp, 2) != 1 || get(arp + 2, 2) != ETHERTYPE_IP || get(arp + 24, 4) != ipv4_) return;
  // Replies are from switches: only those are queried.
  if (get(arp + 6, 2) == kArpReply) {
    if (interfaces_[ingress - 1u].is_trunk) meet(get(arp + 14, 4), ingress, arp + 8, true);
    return;
  }
  if (get(arp + 6, 2) != kArpRequest) return;
  Mac mac;
  std::memcpy(mac.data(), arp + 8, 6);
  std::byte reply[kOffloadBytes + kEthernetBytes + kArpBytes] = {};
  write_ethernet(reply + kOffloadBytes, mac, mac_, ETHERTYPE_ARP);
  write_arp(reply + kOffloadBytes + kEthernetBytes, kArpReply, mac_, ipv4_, mac, get(arp + 14, 4));
  put(ingress, reply);
}

void Bridge::learn(std::uint16_t ingress, const std::byte* mac) {
  const bool is_one = (static_cast<unsigned>(mac[0]) & 1) == 0;
  if (is_one && interfaces_[ingress - 1u].forwards &&
      (learned_.size() < kMostLearned || learned_.contains(number(mac))))
    learned_[number(mac)] = ingress;
}

void Bridge::take_frame(std::uint16_t ingress, std::span<std::byte> with_offload,
                        const Take& take) {
  const auto frame = with_offload.subspan(kOffloadBytes);
  if (frame.size() < kEthernetBytes) return;
  learn(ingress, frame.data() + 6);
  const bool to_all = number(frame.data()) == 0xffff'ffff'ffff;
  const bool to_this = std::memcmp(frame.data(), mac_.data(), 6) == 0;
  const bool is_arp = get(frame.data() + 12, 2) == ETHERTYPE_ARP;
  if (is_arp && (to_all || to_this)) take_arp(ingress, frame);
  if (!to_this) {
    if (interfaces_[ingress - 1u].forwards) forward(ingress, with_offload);
  } else if (!is_arp) {
    take_own(ingress, frame, take);
  }
}

// Takes a frame to this switch's MAC address.
void Bridge::take_own(std::uint16_t ingress, std::span<const std::byte> frame, const Take& take) {
  const Interface& interface = interfaces_[ingress - 1u];
  const std::uint32_t type = get(frame.data() + 12, 2);
  const auto packet =
      type == ETHERTYPE_IP ? read_roce(frame.subspan(kEthernetBytes)) : std::optional<RocePacket>();
  if (!packet || packet->header.to_ipv4 != ipv4_ ||
      packet->header.to_queue_pair != kSwitchQueuePair ||
      packet->header.queue_key != kRoceQueueKey ||
      (packet->header.from_queue_pair == kSwitchQueuePair && !interface.is_trunk)) {
    ++counters_.not_roce;
    return;
  }
  ++counters_.taken;
  const RoceHeader& header = packet->header;
  const bool is_switch = header.from_queue_pair == kSwitchQueuePair;
  meet(header.from_ipv4, ingress, frame.data() + 6, is_switch);
  Address address{header.from_ipv4, kRocePort, ingress, header.from_queue_pair};
  if (is_switch) address.ingress = 0, address.queue_pair = 0;
  take(address, packet->payload);
}

void Bridge::send(const Address& to, std::span<const std::byte> bytes) {
  const auto found = neighbours_.find(key(to.ipv4, to.ingress));
  if (found == neighbours_.end()) {
    if (to.ingress == 0) ask_for(to.ipv4);
    return;
  }
  const Neighbour& neighbour = found->second;
  constexpr std::size_t kHead = kOffloadBytes + kEthernetBytes;
  std::byte memory[kHead + kMaxRoceBytes];
  // By XDP the frame is written where the kernel reads it. Without room there it goes the other
  // way.
  XdpPort* xdp = interfaces_[neighbour.ingress - 1u].xdp.get();
  std::span<std::byte> frame = xdp != nullptr ? xdp->out().room() : std::span<std::byte>();
  if (frame.empty()) xdp = nullptr, frame = std::span(memory).subspan(kOffloadBytes);
  write_ethernet(frame.data(), neighbour.mac, mac_, ETHERTYPE_IP);
  RoceHeader header;
  header.from_ipv4 = ipv4_;
  header.to_ipv4 = to.ipv4;
  header.from_port = kSourcePort;
  header.from_queue_pair = kSwitchQueuePair;
  header.to_queue_pair = to.queue_pair == 0 ? kSwitchQueuePair : to.queue_pair;
  header.sequence = sequence_++ & 0xffffff;
  const std::size_t length = write_roce(frame.subspan(kEthernetBytes), header, bytes);
  if (length == 0) return;
  if (xdp != nullptr) return xdp->out().send(kEthernetBytes + length);
  std::memset(memory, 0, kOffloadBytes);
  put(neighbour.ingress, {memory, kHead + length});
}

void Bridge::receive_packets(std::uint16_t ingress, const Take& take) {
  for (int reads = 0; reads < kMostReads; ++reads) {
    sockaddr_ll from{};
    socklen_t length = sizeof from;
    const ssize_t bytes = recvfrom(interfaces_[ingress - 1u].fd, room_.get(), kRoomBytes,
                                   MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &length);
    if (bytes < static_cast<ssize_t>(kOffloadBytes)) break;
    if (from.sll_pkttype == PACKET_OUTGOING) continue;
    take_frame(ingress, {room_.get(), static_cast<std::size_t>(bytes)}, take);
  }
}

void Bridge::receive(int timeout_ms, const Take& take) {
  std::vector<pollfd> readable;
  for (const Interface& one : interfaces_) {
    readable.push_back({one.fd, POLLIN, 0});
    if (one.xdp == nullptr) continue;
    for (const auto& socket : one.xdp->sockets())
      readable.push_back({socket->descriptor(), POLLIN, 0});
  }
  if (poll(readable.data(), readable.size(), timeout_ms) <= 0) return;
  auto next = readable.begin();
  for (std::uint16_t ingress = 1; ingress <= interfaces_.size(); ++ingress) {
    if ((next++)->revents != 0) receive_packets(ingress, take);
    const Interface& one = interfaces_[ingress - 1u];
    if (one.xdp == nullptr) continue;
    for (const auto& socket : one.xdp->sockets()) {
      if ((next++)->revents == 0) continue;
      socket->receive(kMostReads, [&](std::span<const std::byte> frame) {
        learn(ingress, frame.data() + 6);
        take_own(ingress, frame, take);
      });
    }
  }
  for (const Interface& one : interfaces_)
    if (one.xdp != nullptr) one.xdp->out().flush();
}

}  // namespace weft::innet
