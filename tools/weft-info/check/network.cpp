#include "tools/weft-info/check/network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include "base/wait.hpp"

namespace weft::check {
namespace {

// A numeric address with a port, for the kernel.
struct Target {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family = AF_UNSPEC;
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
  const void* bytes() const {
    return family == AF_INET6
               ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr)
               : &reinterpret_cast<const sockaddr_in&>(storage).sin_addr;
  }
  std::size_t num_bytes() const { return family == AF_INET6 ? 16 : 4; }
};

bool read_target(const std::string& address, int port, Target& target) {
  auto& v4 = reinterpret_cast<sockaddr_in&>(target.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(target.storage);
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    target.family = AF_INET;
    target.length = sizeof v4;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
  } else if (inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    target.family = AF_INET6;
    target.length = sizeof v6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
  } else {
    return false;
  }
  target.storage.ss_family = static_cast<sa_family_t>(target.family);
  return true;
}

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

int port_of(int socket) {
  Target target;
  target.length = sizeof target.storage;
  getsockname(socket, target.raw(), &target.length);
  return ntohs(reinterpret_cast<const sockaddr_in&>(target.storage).sin_port);
}

Status no_address(const std::string& address) {
  return {Code::bad_argument, fmt::format("'{}' is no address", address)};
}

Status failed(const std::string& what) {
  return {Code::not_found, fmt::format("{}: {}", what, strerror(errno))};
}

void add_attribute(nlmsghdr& header, unsigned short type, const void* bytes, std::size_t size) {
  auto* at =
      reinterpret_cast<rtattr*>(reinterpret_cast<char*>(&header) + NLMSG_ALIGN(header.nlmsg_len));
  at->rta_type = type;
  at->rta_len = static_cast<unsigned short>(RTA_LENGTH(size));
  std::memcpy(RTA_DATA(at), bytes, size);
  header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_ALIGN(header.nlmsg_len) + RTA_SPACE(size));
}

}  // namespace

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 ||
        (entry->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
    Interface one{entry->ifa_name,
                  numeric(entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof *v6),
                  0};
    ifreq request{};
    std::strncpy(request.ifr_name, entry->ifa_name, IFNAMSIZ - 1);
    if (ioctl(socket.get(), SIOCGIFMTU, &request) == 0)
      one.mtu = static_cast<unsigned>(request.ifr_mtu);
    found.push_back(std::move(one));
  }
  freeifaddrs(list);
  return found;
}

Status resolve(const std::string& name, int timeout_ms, std::vector<std::string>& addresses) {
  // getaddrinfo has no deadline of its own: a thread that is late is left behind with what it
  // needs.
  struct Shared {
    std::mutex mutex;
    std::condition_variable done;
    bool is_done = false;
    int error = 0;
    std::vector<std::string> addresses;
  };
  auto shared = std::make_shared<Shared>();
  std::thread([shared, name] {
    addrinfo hints{}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    const int error = getaddrinfo(name.c_str(), nullptr, &hints, &list);
    std::vector<std::string> found;
    for (const addrinfo* entry = error == 0 ? list : nullptr; entry != nullptr;
         entry = entry->ai_next)
      found.push_back(numeric(entry->ai_addr, entry->ai_addrlen));
    if (error == 0) freeaddrinfo(list);
    const std::lock_guard lock(shared->mutex);
    shared->error = error;
    shared->addresses = std::move(found);
    shared->is_done = true;
    shared->done.notify_one();
  }).detach();
  std::unique_lock lock(shared->mutex);
  if (!shared->done.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                             [&] { return shared->is_done; }))
    return {Code::timed_out, fmt::format("no name server has answered in {} s", timeout_ms / 1000)};
  if (shared->error != 0) return {Code::not_found, gai_strerror(shared->error)};
  addresses = shared->addresses;
  return {};
}

// rtnetlink(7), RTM_GETROUTE: what `ip route get` asks.
Status find_route(const std::string& to, const std::string& from, Route& route) {
  Target target, source;
  if (!read_target(to, 0, target)) return no_address(to);
  const bool has_source = read_target(from, 0, source) && source.family == target.family;
  alignas(nlmsghdr) std::array<char, 4096> buffer{};
  auto& header = *reinterpret_cast<nlmsghdr*>(buffer.data());
  header.nlmsg_len = NLMSG_LENGTH(sizeof(rtmsg));
  header.nlmsg_type = RTM_GETROUTE;
  header.nlmsg_flags = NLM_F_REQUEST;
  auto& message = *static_cast<rtmsg*>(NLMSG_DATA(&header));
  message.rtm_family = static_cast<unsigned char>(target.family);
  message.rtm_dst_len = static_cast<unsigned char>(target.num_bytes() * 8);
  add_attribute(header, RTA_DST, target.bytes(), target.num_bytes());
  if (has_source) {
    message.rtm_src_len = message.rtm_dst_len;
    add_attribute(header, RTA_SRC, source.bytes(), source.num_bytes());
  }
  const Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket || send(socket.get(), buffer.data(), header.nlmsg_len, 0) < 0)
    return failed("rtnetlink");
  pollfd readable{socket.get(), POLLIN, 0};
  if (poll(&readable, 1, 1000) != 1) return {Code::timed_out, "the kernel does not answer"};
  const ssize_t length = recv(socket.get(), buffer.data(), buffer.size(), 0);
  if (length < 0 || !NLMSG_OK(&header, static_cast<std::size_t>(length)))
    return failed("rtnetlink");
  if (header.nlmsg_type == NLMSG_ERROR) {
    errno = -static_cast<const nlmsgerr*>(NLMSG_DATA(&header))->error;
    // A blackhole route answers so.
    return errno == EINVAL ? Status{Code::not_found, "a blackhole route drops it"}
                           : failed("no route");
  }
  auto left = static_cast<int>(header.nlmsg_len - NLMSG_LENGTH(sizeof(rtmsg)));
  for (const rtattr* at = RTM_RTA(&message); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    char text[INET6_ADDRSTRLEN] = "", name[IF_NAMESIZE] = "";
    if (at->rta_type == RTA_OIF) {
      unsigned index = 0;
      std::memcpy(&index, RTA_DATA(at), sizeof index);
      if (if_indextoname(index, name) != nullptr) route.interface = name;
    } else if (at->rta_type == RTA_PREFSRC) {
      route.source = inet_ntop(target.family, RTA_DATA(at), text, sizeof text);
    } else if (at->rta_type == RTA_GATEWAY) {
      route.gateway = inet_ntop(target.family, RTA_DATA(at), text, sizeof text);
    }
  }
  return {};
}

Ports port_range() {
  Ports ports{32768, 60999};
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> ports.first >> ports.last;
  return ports;
}

Status listen_at(const std::string& address, int port, Descriptor& socket, int& bound) {
  constexpr int kMostTaken = 64;
  for (int next = port; next <= port + kMostTaken; ++next) {
    Target target;
    if (!read_target(address, next, target)) return no_address(address);
    Descriptor made(::socket(target.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (bind(made.get(), target.raw(), target.length) == 0 && listen(made.get(), 64) == 0) {
      bound = port_of(made.get());
      socket = std::move(made);
      return {};
    }
    if (port == 0 || errno != EADDRINUSE) break;
  }
  return failed(fmt::format("cannot listen at {} port {}", address, port));
}

Status bind_datagrams(const std::string& address, Descriptor& socket, int& bound) {
  Target target;
  if (!read_target(address, 0, target)) return no_address(address);
  Descriptor made(::socket(target.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (bind(made.get(), target.raw(), target.length) != 0)
    return failed(fmt::format("cannot bind a UDP socket at {}", address));
  bound = port_of(made.get());
  socket = std::move(made);
  return {};
}

void echo_datagrams(const Descriptor& socket) {
  std::array<char, 8> bytes;
  Target from;
  for (;;) {
    from.length = sizeof from.storage;
    // The rest of the packet is of no interest.
    const ssize_t length =
        recvfrom(socket.get(), bytes.data(), bytes.size(), 0, from.raw(), &from.length);
    if (length < 0) return;
    (void)sendto(socket.get(), bytes.data(), static_cast<std::size_t>(length), 0, from.raw(),
                 from.length);
  }
}

std::vector<Attempt> connect_to(const std::string& address, const std::vector<int>& ports,
                                int timeout_ms) {
  std::vector<Attempt> attempts;
  std::vector<Descriptor> sockets;
  std::vector<pollfd> polls;
  const std::uint64_t begin = now_ns(),
                      end = begin + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  for (const int port : ports) {
    Attempt& attempt = attempts.emplace_back(Attempt{port, ETIMEDOUT, 0});
    Target target;
    if (!read_target(address, port, target)) attempt.error = EINVAL;
    sockets.emplace_back(::socket(target.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connect(sockets.back().get(), target.raw(), target.length) == 0)
      attempt.error = 0;
    else if (errno != EINPROGRESS)
      attempt.error = errno;
    polls.push_back({attempt.error == ETIMEDOUT ? sockets.back().get() : -1, POLLOUT, 0});
  }
  while (std::ranges::any_of(polls, [](const pollfd& one) { return one.fd >= 0; })) {
    const std::uint64_t now = now_ns();
    if (now >= end ||
        poll(polls.data(), polls.size(), static_cast<int>((end - now) / 1'000'000) + 1) == 0)
      break;
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].fd < 0 || polls[i].revents == 0) continue;
      socklen_t length = sizeof attempts[i].error;
      getsockopt(polls[i].fd, SOL_SOCKET, SO_ERROR, &attempts[i].error, &length);
      attempts[i].us = static_cast<double>(now_ns() - begin) / 1000;
      polls[i].fd = -1;
    }
  }
  return attempts;
}

unsigned largest_packet(const std::string& address, int port, unsigned most) {
  Target target;
  if (!read_target(address, port, target)) return 0;
  const bool is_v6 = target.family == AF_INET6;
  const unsigned head = is_v6 ? 48 : 28;  // of IP and UDP
  const Descriptor socket(::socket(target.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Never in pieces, whatever the kernel believes of the path.
  const int probe = is_v6 ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE;
  setsockopt(socket.get(), is_v6 ? IPPROTO_IPV6 : IPPROTO_IP,
             is_v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &probe, sizeof probe);
  if (connect(socket.get(), target.raw(), target.length) != 0) return 0;
  std::vector<char> packet(most);
  std::uint64_t number = 0;
  const auto passes = [&](unsigned bytes) {
    constexpr int kTimes = 3, kWaitMs = 100;
    for (int i = 0; i < kTimes; ++i) {
      ++number;
      std::memcpy(packet.data(), &number, sizeof number);
      if (send(socket.get(), packet.data(), bytes - head, 0) < 0) continue;
      pollfd readable{socket.get(), POLLIN, 0};
      // One that comes late, of an earlier attempt, is no answer to a larger packet.
      while (poll(&readable, 1, kWaitMs) == 1) {
        std::uint64_t answer = 0;
        if (recv(socket.get(), &answer, sizeof answer, MSG_DONTWAIT) < 0) break;
        if (answer == number) return true;
      }
    }
    return false;
  };
  constexpr unsigned kLeast = 68;
  if (most < kLeast || !passes(kLeast)) return 0;
  if (passes(most)) return most;
  unsigned good = kLeast, bad = most;
  while (bad - good > 1) {
    const unsigned middle = good + (bad - good) / 2;
    (passes(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace weft::check
