#include "fabric/tcp/sockets.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/shortage.hpp"
#include "fabric/tcp/wire.hpp"

namespace weft::fabric::tcp {
namespace {

// A host that does not answer is given up after the fifth try, 5 to 31 s after the first, as the
// kernel spaces them.
constexpr int kMostSynTries = 4;
constexpr int kQueue = 4096;  // connections that wait to be accepted; the kernel has its own limit

struct Place {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

bool read_place(Bytes bytes, Place& place) {
  if (bytes.size() != sizeof(sockaddr_in) && bytes.size() != sizeof(sockaddr_in6)) return false;
  std::memcpy(&place.storage, bytes.data(), bytes.size());
  place.length = static_cast<socklen_t>(bytes.size());
  return place.storage.ss_family == (bytes.size() == sizeof(sockaddr_in) ? AF_INET : AF_INET6);
}

Place place_of(const std::string& text) {
  Place place;
  auto& v4 = reinterpret_cast<sockaddr_in&>(place.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(place.storage);
  const bool is_v4 = inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1;
  if (!is_v4) inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr);
  place.storage.ss_family = is_v4 ? AF_INET : AF_INET6;
  place.length = is_v4 ? sizeof v4 : sizeof v6;
  return place;
}

Status failed(const char* what) {
  const bool lacks = is_shortage(errno);
  return {
      lacks ? Code::no_memory : Code::unsupported,
      fmt::format("cannot {}: {}{}", what, std::strerror(errno), lacks ? " (see ulimit -n)" : "")};
}

// A failure costs what the network does for the class.
void set_traffic_class(const Descriptor& socket, int family, std::uint8_t traffic_class) {
  const int value = traffic_class;
  if (value == 0) return;
  if (family == AF_INET6)
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof value);
  // Also of an IPv4 address as IPv6.
  ::setsockopt(socket.get(), IPPROTO_IP, IP_TOS, &value, sizeof value);
}

void send_at_once(const Descriptor& socket) {
  constexpr int kOn = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
}

}  // namespace

Status find_interfaces(const Settings& settings, std::vector<Interface>& interfaces) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return failed("list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> kept(list, ::freeifaddrs);
  const std::string route = default_route(false), route_v6 = default_route(true);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const bool is_v4 = one->ifa_addr->sa_family == AF_INET;
    if (!is_v4 && one->ifa_addr->sa_family != AF_INET6) continue;
    Interface interface {
      one->ifa_name, address_text({reinterpret_cast<const char*>(one->ifa_addr),
                                   is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)})
    };
    if (is_link_local(interface.address)) continue;
    interface.has_default_route = interface.name == (is_v4 ? route : route_v6);
    interfaces.push_back(std::move(interface));
  }
  if (interfaces.empty())
    return {Code::unsupported,
            "no network interface is up and has an address (ip address; ip link set lo up)"};
  std::size_t chosen = 0;
  if (Status status = choose_interface(interfaces, settings.text(Setting::interface), chosen);
      !status)
    return status;
  const auto first = interfaces.begin() + static_cast<std::ptrdiff_t>(chosen);
  std::rotate(interfaces.begin(), first, first + 1);
  return {};
}

Status listen_at(const Interface& interface, std::uint8_t traffic_class, Descriptor& socket,
                 std::string& address) {
  Place place = place_of(interface.address);
  socket =
      Descriptor(::socket(place.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return failed("make a socket");
  set_traffic_class(socket, place.storage.ss_family, traffic_class);
  if (::bind(socket.get(), place.raw(), place.length) != 0 || ::listen(socket.get(), kQueue) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&place.storage), &place.length) != 0)
    return failed(fmt::format("listen at {} {}", interface.name, interface.address).c_str());
  address.assign(reinterpret_cast<const char*>(&place.storage), place.length);
  return {};
}

Status connect_to(Bytes to, const std::string& own, std::uint8_t traffic_class, Descriptor& socket,
                  Code& at_once) {
  Place from, place;
  read_place(bytes_of(own.data(), own.size()), from);
  if (!read_place(to, place) || place.length != from.length)
    return {Code::bad_argument, "a peer's address is none of TCP, or of another IP version"};
  socket =
      Descriptor(::socket(place.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return failed("make a socket");
  send_at_once(socket);
  set_traffic_class(socket, place.storage.ss_family, traffic_class);
  constexpr int kOn = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_SYNCNT, &kMostSynTries, sizeof kMostSynTries);
  // The port is chosen at the connection, so that all ports are there for each peer.
  ::setsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &kOn, sizeof kOn);
  if (from.storage.ss_family == AF_INET)
    reinterpret_cast<sockaddr_in&>(from.storage).sin_port = 0;
  else
    reinterpret_cast<sockaddr_in6&>(from.storage).sin6_port = 0;
  if (::bind(socket.get(), from.raw(), from.length) != 0) return failed("bind a socket");
  at_once = Code::ok;
  if (::connect(socket.get(), place.raw(), place.length) == 0 || errno == EINPROGRESS) return {};
  if (errno == EAGAIN || errno == EADDRNOTAVAIL)
    return {Code::no_memory, "cannot connect: this host has no free port to the peer"};
  at_once = errno == ECONNREFUSED ? Code::not_found : Code::peer_lost;
  return {};
}

Descriptor accept_from(const Descriptor& listener, Code& code) {
  Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  code = socket ? Code::ok : is_shortage(errno) ? Code::no_memory : Code::again;
  if (socket) send_at_once(socket);
  return socket;
}

}  // namespace weft::fabric::tcp
