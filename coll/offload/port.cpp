#include "coll/offload/port.hpp"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "base/log.hpp"
#include "coll/switch/roce.hpp"
#include "coll/switch/socket_address.hpp"

namespace weft::offload {

using namespace innet;

namespace {

// Room for a window of packets that arrive while this process does not run.
constexpr int kSocketBytes = 1 << 20;

class Socket {
 public:
  Socket(int family, int type, int protocol)
      : family_(family), fd_(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  operator int() const noexcept { return fd_; }
  bool connect(const Address& to) const noexcept {
    const SocketAddress raw = to_socket(to, family_);
    return ::connect(fd_, &raw.any, raw.bytes) == 0;
  }
  bool bind(const Address& own) const noexcept {
    const SocketAddress raw = to_socket(own, family_);
    return ::bind(fd_, &raw.any, raw.bytes) == 0;
  }
  // Without its port.
  Address own() const noexcept {
    Address own = own_address(fd_);
    own.port = 0;
    return own;
  }

 private:
  int family_, fd_;
};

class UdpPort final : public Port {
 public:
  explicit UdpPort(const Address& tor) : socket_(family_of(tor), SOCK_DGRAM, 0) {}
  Status open(const Address& tor) {
    if (socket_ < 0)
      return {Code::no_memory, fmt::format("no UDP socket to be had: {}", std::strerror(errno))};
    (void)setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes);
    if (!socket_.connect(tor))
      return {Code::not_found,
              fmt::format("no route to the switch {}: {}", text(tor), std::strerror(errno))};
    return {};
  }
  void send(std::span<const std::byte> packet) noexcept override {
    (void)!::send(socket_, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  long receive(std::byte* room) noexcept override {
    // An error here is that of an earlier packet (no process listens there); the switch's silence
    // will show it.
    return recv(socket_, room, kMaxPacketBytes + 1, MSG_DONTWAIT);
  }
  int descriptor() const noexcept override { return socket_; }
  Address own() const noexcept override { return socket_.own(); }
  HostPort host_port() const override { return {}; }
  std::string kind() const override { return "UDP"; }

 private:
  Socket socket_;
};

// A queue pair made by this process: RoCEv2 in a raw IPv4 socket, with a random number.
class RawPort final : public Port {
 public:
  explicit RawPort(const Address&) {}
  Status open(const Address& tor) {
    if (socket_ < 0)
      return {
          Code::not_permitted,
          fmt::format("no raw socket for RoCEv2 to be had: {}; it takes CAP_NET_RAW (a switch at "
                      "another port than 4791 is reached by UDP)",
                      std::strerror(errno))};
    const Socket way(AF_INET, SOCK_DGRAM, 0);
    if (way < 0 || !way.connect(tor) || !socket_.bind(way.own()) || !socket_.connect(tor))
      return {Code::not_found,
              fmt::format("no route to the switch {}: {}", text(tor), std::strerror(errno))};
    header_.from_ipv4 = way.own().ipv4;
    header_.to_ipv4 = tor.ipv4;
    std::random_device random;
    header_.from_queue_pair = 0x800000 | (random() & 0x7fffff);
    header_.from_port = static_cast<std::uint16_t>(0xc000 | (random() & 0x3fff));
    header_.to_queue_pair = kSwitchQueuePair;
    const int on = 1;
    (void)setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes);
    // Every raw socket of this host gets all datagrams of the switch: the kernel filters out those
    // for others. The filter checks UDP's port, then BTH's queue pair, from the IPv4 header on.
    sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 22),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRocePort, 0, 4),
                           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 32),
                           BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, header_.from_queue_pair, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, 0xffff),
                           BPF_STMT(BPF_RET | BPF_K, 0)};
    const sock_fprog filter{static_cast<unsigned short>(std::size(steps)), steps};
    if (setsockopt(socket_, IPPROTO_IP, IP_HDRINCL, &on, sizeof on) != 0 ||
        setsockopt(socket_, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
      return {Code::unsupported,
              fmt::format("a raw socket takes no RoCEv2: {}", std::strerror(errno))};
    // Binds the port so that the kernel does not report it to the switch as unreachable; another
    // process, or a device, may have it already.
    (void)setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)listener_.bind({header_.from_ipv4, kRocePort});
    return {};
  }
  void send(std::span<const std::byte> packet) noexcept override {
    std::byte bytes[kMaxRoceBytes];
    RoceHeader header = header_;
    header.sequence = sequence_.fetch_add(1, std::memory_order_relaxed) & 0xffffff;
    const std::size_t length = write_roce(bytes, header, packet);
    (void)!::send(socket_, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  long receive(std::byte* room) noexcept override {
    std::byte bytes[kMaxRoceBytes + 1];
    const ssize_t length = recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (length < 0) return -1;
    const auto packet = read_roce({bytes, static_cast<std::size_t>(length)});
    if (!packet || packet->header.from_ipv4 != header_.to_ipv4 ||
        packet->header.from_queue_pair != kSwitchQueuePair ||
        packet->header.to_queue_pair != header_.from_queue_pair ||
        packet->header.queue_key != kRoceQueueKey || packet->payload.size() > kMaxPacketBytes)
      return 0;
    std::memcpy(room, packet->payload.data(), packet->payload.size());
    return static_cast<long>(packet->payload.size());
  }
  int descriptor() const noexcept override { return socket_; }
  Address own() const noexcept override { return {header_.from_ipv4}; }
  HostPort host_port() const override {
    HostPort port;
    port.mac = mac_of(header_.from_ipv4);
    // The GID of an IPv4 address.
    port.gid[10] = port.gid[11] = 0xff;
    for (std::size_t i = 0; i < 4; ++i)
      port.gid[12 + i] = static_cast<std::uint8_t>(header_.from_ipv4 >> (24 - 8 * i));
    port.queue_pair = header_.from_queue_pair;
    port.queue_key = kRoceQueueKey;
    return port;
  }
  std::string kind() const override { return "a raw socket"; }

 private:
  Socket socket_{AF_INET, SOCK_RAW, IPPROTO_UDP};
  Socket listener_{AF_INET, SOCK_DGRAM, 0};
  RoceHeader header_;
  std::atomic<std::uint32_t> sequence_{0};
};

template <class T>
std::unique_ptr<Port> make(const Address& tor, Status& status) {
  auto port = std::make_unique<T>(tor);
  status = port->open(tor);
  if (!status) return nullptr;
  return port;
}

}  // namespace

std::array<std::uint8_t, 6> mac_of(std::uint32_t ipv4) {
  std::array<std::uint8_t, 6> mac{};
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return mac;
  const auto find = [all](int family, auto&& is_it) {
    const ifaddrs* one = all;
    while (one != nullptr &&
           (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family || !is_it(*one)))
      one = one->ifa_next;
    return one;
  };
  const ifaddrs* own = find(AF_INET, [ipv4](const ifaddrs& one) {
    return reinterpret_cast<const sockaddr_in*>(one.ifa_addr)->sin_addr.s_addr == htonl(ipv4);
  });
  const ifaddrs* link = own == nullptr ? nullptr : find(AF_PACKET, [own](const ifaddrs& one) {
    return std::strcmp(one.ifa_name, own->ifa_name) == 0;
  });
  if (link != nullptr)
    std::memcpy(mac.data(), reinterpret_cast<const sockaddr_ll*>(link->ifa_addr)->sll_addr,
                mac.size());
  freeifaddrs(all);
  return mac;
}

std::unique_ptr<Port> open_port(const Address& tor, Status& status) {
  if (tor.port != kRocePort) return make<UdpPort>(tor, status);
  if (tor.is_ipv6) {
    status = {Code::unsupported,
              fmt::format("the switch {}: RoCEv2, which port {} means, is spoken over IPv4 alone",
                          text(tor), kRocePort)};
    return nullptr;
  }
#ifdef WEFT_HAVE_VERBS
  if (const Socket way(AF_INET, SOCK_DGRAM, 0); way >= 0 && way.connect(tor)) {
    if (auto port = open_verbs_port(way.own().ipv4, tor, status)) return port;
    log_line(LogLevel::info, -1, "offload: no queue pair: {}", status.text());
  }
#endif
  return make<RawPort>(tor, status);
}

}  // namespace weft::offload
