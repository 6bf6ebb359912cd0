#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/os/descriptor.hpp"
#include "multicast/channel.hpp"

namespace weft::mcast {

namespace {

constexpr std::size_t kMostSegments = 64, kMostBytes = 65507;  // of the kernel's at a time
constexpr std::size_t kReads = 8;
// Jumbo frames; the loopback would take more than a packet of any network.
constexpr std::size_t kMostMtu = 9000;
constexpr std::size_t kIpv4Heads = 28, kIpv6Heads = 48;
constexpr int kSocketBytes = 1 << 20;  // less where net.core.rmem_max is
// Routers between the members' networks that datagrams pass at most.
constexpr int kHops = 16;

sockaddr_in& v4(peer::SocketAddress& address) {
  return reinterpret_cast<sockaddr_in&>(address.storage);
}
sockaddr_in6& v6(peer::SocketAddress& address) {
  return reinterpret_cast<sockaddr_in6&>(address.storage);
}
const sockaddr_in& v4(const peer::SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& v6(const peer::SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

std::string text_of(const peer::SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.storage.ss_family == AF_INET6)
    ::inet_ntop(AF_INET6, &v6(address).sin6_addr, text, sizeof text);
  else
    ::inet_ntop(AF_INET, &v4(address).sin_addr, text, sizeof text);
  return text;
}

bool is_host(const sockaddr& item, const peer::SocketAddress& address) {
  if (item.sa_family != address.storage.ss_family) return false;
  if (item.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(item).sin_addr.s_addr ==
           v4(address).sin_addr.s_addr;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(item).sin6_addr, &v6(address).sin6_addr,
                     sizeof(in6_addr)) == 0;
}

// The interface that has this address.
std::string interface_of(const peer::SocketAddress& local) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::string name;
  for (const ifaddrs* item = all; item != nullptr && name.empty(); item = item->ifa_next)
    if (item->ifa_addr != nullptr && is_host(*item->ifa_addr, local)) name = item->ifa_name;
  ::freeifaddrs(all);
  return name;
}

class UdpChannel : public Channel {
 public:
  Status open(ChannelAddress address, bool is_root);

  std::size_t datagram_max() const noexcept override { return datagram_max_; }
  std::size_t room() const noexcept override { return room_; }
  std::size_t send(std::span<const Datagram> datagrams, Status& status) override;
  bool receive(std::span<const std::byte>& datagram) override;
  pollfd waits_for() const noexcept override {
    return {socket_.get(), static_cast<short>(is_root_ ? POLLOUT : POLLIN), 0};
  }

 private:
  template <class T>
  bool set(int level, int option, const T& value) {
    return ::setsockopt(socket_.get(), level, option, &value, sizeof value) == 0;
  }
  Status refused(const char* what) const {
    return {Code::unsupported, fmt::format("{} for multicast to {} through {}: {}", what, name_,
                                           interface_, std::strerror(errno))};
  }
  std::size_t send_some(std::span<const Datagram> datagrams, Status& status);
  bool read_socket();
  bool join(const ChannelAddress& address, unsigned index);
  bool aim(const ChannelAddress& address);

  bool is_root_ = false;
  Descriptor socket_;
  std::string name_, interface_;
  std::size_t datagram_max_ = 0, room_ = 0;
  bool cuts_ = true;  // the kernel takes several datagrams as one
  // What has come: kReads times kMostBytes, each of datagrams one after the other.
  std::vector<std::byte> bytes_;
  std::array<std::size_t, kReads> lengths_{}, segments_{};
  std::size_t num_here_ = 0, num_taken_ = 0;
  std::span<const std::byte> rest_;  // of the one that is taken apart
  std::size_t segment_ = 0;
};

bool UdpChannel::join(const ChannelAddress& address, unsigned index) {
  const int one = 1, none = 0;
  if (!set(SOL_SOCKET, SO_REUSEADDR, one)) return false;
  if (::bind(socket_.get(), address.group.raw(), address.group.length) != 0) return false;
  if (address.group.storage.ss_family == AF_INET6)
    return set(IPPROTO_IPV6, IPV6_MULTICAST_ALL, none) &&
           set(IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, ipv6_mreq{v6(address.group).sin6_addr, index});
  return set(IPPROTO_IP, IP_MULTICAST_ALL, none) &&
         set(IPPROTO_IP, IP_ADD_MEMBERSHIP,
             ip_mreqn{v4(address.group).sin_addr, v4(address.local).sin_addr,
                      static_cast<int>(index)});
}

bool UdpChannel::aim(const ChannelAddress& address) {
  const int one = 1, hops = kHops;
  if (::connect(socket_.get(), address.group.raw(), address.group.length) != 0) return false;
  // With RECVERR a datagram that this host's own queue has no room for is an error, not a loss.
  if (address.group.storage.ss_family == AF_INET6)
    return set(IPPROTO_IPV6, IPV6_MULTICAST_HOPS, hops) && set(IPPROTO_IPV6, IPV6_RECVERR, one);
  return set(IPPROTO_IP, IP_MULTICAST_TTL, hops) && set(IPPROTO_IP, IP_RECVERR, one);
}

Status UdpChannel::open(ChannelAddress address, bool is_root) {
  is_root_ = is_root;
  const bool is_v6 = address.group.storage.ss_family == AF_INET6;
  name_ = text_of(address.group);
  if (address.group.storage.ss_family != address.local.storage.ss_family)
    return {Code::unsupported,
            fmt::format("{} is of another family than {}, by which members reach "
                        "each other",
                        name_, text_of(address.local))};
  interface_ = interface_of(address.local);
  const unsigned index = interface_.empty() ? 0 : ::if_nametoindex(interface_.c_str());
  if (index == 0)
    return {Code::unsupported,
            fmt::format("no interface has the address {}", text_of(address.local))};
  // Addresses of the link, such as ff12::1, are bound with their interface.
  if (is_v6) v6(address.group).sin6_scope_id = index;
  socket_ = Descriptor(
      ::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket_.get() < 0) return refused("no socket");
  ifreq request{};
  interface_.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (::ioctl(socket_.get(), SIOCGIFMTU, &request) != 0) return refused("no MTU");
  const std::size_t heads = is_v6 ? kIpv6Heads : kIpv4Heads;
  datagram_max_ = std::min(static_cast<std::size_t>(request.ifr_mtu), kMostMtu);
  if (datagram_max_ <= 2 * heads)
    return {Code::unsupported, fmt::format("packets of {} are too short", interface_)};
  datagram_max_ -= heads;
  if (is_root) {
    // Where the address of an interface is ambiguous its number is not.
    const bool is_chosen =
        is_v6 ? set(IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(index))
              : set(IPPROTO_IP, IP_MULTICAST_IF,
                    ip_mreqn{{}, v4(address.local).sin_addr, static_cast<int>(index)});
    if (!is_chosen || !aim(address)) return refused("no sending");
    room_ = ~std::size_t{0};
    return {};
  }
  const int wanted = kSocketBytes;
  set(SOL_SOCKET, SO_RCVBUF, wanted);
  int got = 0;
  socklen_t length = sizeof got;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &got, &length) != 0)
    return refused("no buffer");
  // The kernel counts a datagram with its bookkeeping, and the memory that it lies in.
  room_ = static_cast<std::size_t>(got) / (std::bit_ceil(datagram_max_ + 512) + 256);
  if (!join(address, index)) return refused("no joining");
  // Those that come one after the other are then given as one. It may be missing.
  const int one = 1;
  set(SOL_UDP, UDP_GRO, one);
  bytes_.resize(kReads * kMostBytes);
  return {};
}

std::size_t UdpChannel::send(std::span<const Datagram> datagrams, Status& status) {
  std::size_t num_sent = 0;
  while (num_sent < datagrams.size()) {
    const std::size_t count = send_some(datagrams.subspan(num_sent), status);
    if (count == 0) break;
    num_sent += count;
  }
  return num_sent;
}

// Datagrams of one length, of which the last may be shorter, go to the kernel as one, which the
// interface cuts.
std::size_t UdpChannel::send_some(std::span<const Datagram> datagrams, Status& status) {
  std::array<iovec, 2 * kMostSegments> parts;
  const std::size_t length = datagrams[0].head.size() + datagrams[0].body.size();
  std::size_t count = 0;
  for (bool is_last = false; !is_last && count < datagrams.size() && count < kMostSegments &&
                             (count + 1) * length <= kMostBytes && (count == 0 || cuts_);
       ++count) {
    const Datagram& datagram = datagrams[count];
    const std::size_t bytes = datagram.head.size() + datagram.body.size();
    if (bytes > length) break;
    is_last = bytes < length;
    parts[2 * count] = {const_cast<std::byte*>(datagram.head.data()), datagram.head.size()};
    parts[2 * count + 1] = {const_cast<std::byte*>(datagram.body.data()), datagram.body.size()};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = 2 * count;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(std::uint16_t))] = {};
  if (count > 1) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* segment = CMSG_FIRSTHDR(&message);
    segment->cmsg_level = SOL_UDP;
    segment->cmsg_type = UDP_SEGMENT;
    segment->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    const auto value = static_cast<std::uint16_t>(length);
    std::memcpy(CMSG_DATA(segment), &value, sizeof value);
  }
  while (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (count > 1 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) {
      // The interface computes no checksums, or the kernel is old.
      cuts_ = false;
      return send_some(datagrams, status);
    }
    if (errno == EAGAIN)
      status = Code::again;
    else if (errno == ENOBUFS || errno == ENOMEM)
      status = Code::no_memory;
    else
      status = refused("no sending");
    return 0;
  }
  return count;
}

bool UdpChannel::receive(std::span<const std::byte>& datagram) {
  while (rest_.empty()) {
    if (num_taken_ < num_here_) {
      rest_ = {bytes_.data() + num_taken_ * kMostBytes, lengths_[num_taken_]};
      segment_ = segments_[num_taken_++];
    } else if (!read_socket()) {
      return false;  // nothing, or an error of the network, which is a loss
    }
  }
  datagram = rest_.first(std::min(segment_, rest_.size()));
  rest_ = rest_.subspan(datagram.size());
  return true;
}

bool UdpChannel::read_socket() {
  std::array<mmsghdr, kReads> messages{};
  std::array<iovec, kReads> parts;
  struct alignas(cmsghdr) Control {
    char bytes[CMSG_SPACE(sizeof(int))];
  };
  std::array<Control, kReads> controls{};
  for (std::size_t i = 0; i < kReads; ++i) {
    parts[i] = {bytes_.data() + i * kMostBytes, kMostBytes};
    msghdr& message = messages[i].msg_hdr;
    message.msg_iov = &parts[i];
    message.msg_iovlen = 1;
    message.msg_control = controls[i].bytes;
    message.msg_controllen = sizeof controls[i].bytes;
  }
  int result = 0;
  do {
    result = ::recvmmsg(socket_.get(), messages.data(), kReads, MSG_DONTWAIT, nullptr);
  } while (result < 0 && errno == EINTR);
  if (result <= 0) return false;
  num_taken_ = 0;
  num_here_ = static_cast<std::size_t>(result);
  for (std::size_t i = 0; i < num_here_; ++i) {
    msghdr& message = messages[i].msg_hdr;
    lengths_[i] = segments_[i] = messages[i].msg_len;
    for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
         item = CMSG_NXTHDR(&message, item)) {
      if (item->cmsg_level != SOL_UDP || item->cmsg_type != UDP_GRO) continue;
      int value = 0;
      std::memcpy(&value, CMSG_DATA(item), sizeof value);
      if (value > 0) segments_[i] = static_cast<std::size_t>(value);
    }
  }
  return true;
}

}  // namespace

Status open_udp_channel(const ChannelAddress& address, bool is_root,
                        std::unique_ptr<Channel>& channel) {
  auto made = std::make_unique<UdpChannel>();
  if (Status status = made->open(address, is_root); !status) return status;
  channel = std::move(made);
  return {};
}

bool is_same_host(const peer::SocketAddress& one, const peer::SocketAddress& other) {
  return is_host(*one.raw(), other);
}

Status local_towards(const peer::SocketAddress& other, peer::SocketAddress& local) {
  if (other.is_unix) return {Code::unsupported, "a Unix socket leads to no network"};
  Descriptor socket(::socket(other.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  local.length = sizeof local.storage;
  // Connecting a UDP socket sends no packet.
  if (socket.get() < 0 || ::connect(socket.get(), other.raw(), other.length) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local.storage), &local.length) != 0)
    return {Code::unsupported,
            fmt::format("no route to {}: {}", text_of(other), std::strerror(errno))};
  return {};
}

Status multicast_address(const std::string& text, const peer::SocketAddress& local,
                         std::span<const std::uint8_t, 16> seed, peer::SocketAddress& address) {
  const auto wrong = [&] {
    return Status(Code::bad_argument,
                  fmt::format("'{}' is no multicast address: want one of 224.0.0.0/4 or ff00::/8, "
                              "as 239.1.2.3, 239.1.2.3:5000 or [ff15::1]:5000",
                              text));
  };
  const auto refused = [&](std::string_view why) {
    return Status(Code::bad_argument,
                  fmt::format("'{}' {}: take one of 239.192.0.0/14 or ff18::/16, an organization's "
                              "own, or of 239.255.0.0/16 or ff15::/16, a site's",
                              text, why));
  };
  // Switches send these to every port, whoever has joined.
  constexpr std::string_view kOfTheLink =
      "is kept for the protocols of one link (224.0.0.0/24, ff02::/16), and no router passes it on";
  address = {};
  unsigned port = 49152u + ((seed[14] * 256u + seed[15]) & 0x3fff);
  std::string host = text;
  const bool is_bracketed = text.starts_with('[');
  if (is_bracketed || std::ranges::count(text, ':') == 1) {
    const std::size_t end = is_bracketed ? text.find(']') : text.find(':');
    if (end == std::string::npos) return wrong();
    host = text.substr(is_bracketed ? 1 : 0, end - (is_bracketed ? 1 : 0));
    std::string_view rest = std::string_view(text).substr(is_bracketed ? end + 1 : end);
    if (!rest.empty()) {
      const auto [last, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), port);
      if (rest.front() != ':') return wrong();
      if (error != std::errc() || last != rest.data() + rest.size() || port == 0 || port > 65535)
        return {Code::bad_argument,
                fmt::format("'{}': a port is a number from 1 to 65535, not '{}'", text,
                            rest.substr(1))};
    }
  }
  bool is_v6 =
      host.empty() ? local.storage.ss_family == AF_INET6 : host.find(':') != std::string::npos;
  if (is_v6) {
    sockaddr_in6& to = v6(address);
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(static_cast<std::uint16_t>(port));
    address.length = sizeof to;
    if (host.empty()) {
      std::memcpy(&to.sin6_addr, seed.data(), sizeof to.sin6_addr);
      to.sin6_addr.s6_addr[0] = 0xff;
      to.sin6_addr.s6_addr[1] = 0x18;  // not assigned for ever, of an organization
    } else if (::inet_pton(AF_INET6, host.c_str(), &to.sin6_addr) != 1 ||
               to.sin6_addr.s6_addr[0] != 0xff) {
      return wrong();
    } else if (const unsigned scope = to.sin6_addr.s6_addr[1]; scope == 0x02) {
      return refused(kOfTheLink);
    } else if ((scope & 15) < 2) {
      return refused("does not leave its host");
    }
  } else {
    sockaddr_in& to = v4(address);
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    address.length = sizeof to;
    if (host.empty())
      to.sin_addr.s_addr =
          htonl((239u << 24) | ((192u + (seed[0] & 3u)) << 16) | (seed[1] * 256u + seed[2]));
    else if (::inet_pton(AF_INET, host.c_str(), &to.sin_addr) != 1 ||
             (ntohl(to.sin_addr.s_addr) >> 28) != 14)
      return wrong();
    else if (ntohl(to.sin_addr.s_addr) >> 8 == 224u << 16)
      return refused(kOfTheLink);
  }
  return {};
}

}  // namespace weft::mcast
