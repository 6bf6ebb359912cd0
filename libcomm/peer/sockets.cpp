#include "peer/sockets.hpp"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "fabric/interfaces.hpp"

namespace weft::peer {

namespace {

// "10.0.0.1" or "fd00::1"; of other addresses nothing.
std::string host_text(const sockaddr& address) {
  const std::size_t bytes =
      address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return fabric::address_text({reinterpret_cast<const char*>(&address), bytes});
}

}  // namespace

Status resolve(std::string_view text, SocketAddress& address, Names names) {
  // C would read the part before it, which names another place.
  if (text.find('\0') != std::string_view::npos)
    return {Code::bad_argument, fmt::format("'{}' is no address: it has a byte 0 in it",
                                            text.substr(0, text.find('\0')))};
  if (text.starts_with("unix:")) {
    const std::string_view path = text.substr(5);
    auto& to = reinterpret_cast<sockaddr_un&>(address.storage);
    if (path.empty() || path.size() >= sizeof to.sun_path)
      return {Code::bad_argument, fmt::format("'{}': the path of a Unix socket has 1 to {} letters",
                                              text, sizeof to.sun_path - 1)};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path.data(), path.size());
    address.is_unix = true;
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    if (path.front() == '@')
      to.sun_path[0] = '\0';
    else
      address.path = path;
    return {};
  }
  const std::size_t colon = text.rfind(':');
  std::string host(text.substr(0, colon == std::string_view::npos ? 0 : colon));
  const std::string port(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size() || number > 65535)
    return {Code::bad_argument,
            fmt::format("'{}' is no address: want host:port, unix:/path or weft:...", text)};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (names == Names::refuse ? AI_NUMERICHOST : 0);
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(host.empty() ? "0.0.0.0" : host.c_str(), port.c_str(), &hints, &found);
  if (failed == EAI_NONAME && names == Names::refuse) return Code::again;
  if (failed != 0) return {Code::not_found, fmt::format("'{}': {}", text, ::gai_strerror(failed))};
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return {};
}

std::string bound_text(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto& address = reinterpret_cast<sockaddr&>(storage);
  ::getsockname(fd, &address, &length);
  // The port of IPv6 has the same place.
  const auto port = ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
  const bool is_v6 = storage.ss_family == AF_INET6;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", host_text(address), is_v6 ? "]" : "", port);
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 ||
        (one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    if (one->ifa_addr->sa_family == AF_INET)
      addresses.push_back(host_text(*one->ifa_addr));
    else if (one->ifa_addr->sa_family == AF_INET6)
      if (const std::string text = host_text(*one->ifa_addr); !fabric::is_link_local(text))
        addresses.push_back(fmt::format("[{}]", text));
  }
  ::freeifaddrs(all);
  return addresses;
}

std::string_view host_of(std::string_view address) {
  return address.substr(0, std::min(address.rfind(':'), address.size()));
}

std::vector<std::string> reached_at(const std::vector<std::string>& bound, std::size_t most) {
  std::vector<std::string> reached;
  std::vector<std::string> own;
  for (const std::string& address : bound) {
    const std::string_view host = host_of(address);
    if (host != "0.0.0.0" && host != "[::]") {
      reached.push_back(address);
      continue;
    }
    if (own.empty()) own = own_addresses();
    std::vector<std::string> these;
    for (const std::string& one : own)
      if (host == "[::]" || !one.starts_with('['))
        these.push_back(one + address.substr(host.size()));
    const std::size_t room = most - std::min(most, bound.size() + reached.size());
    if (these.size() > room) these.resize(room);
    // One without a network is reached by its own host alone.
    if (these.empty()) these.push_back(address);
    reached.insert(reached.end(), these.rbegin(), these.rend());
  }
  return reached;
}

std::string other_end(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto& address = reinterpret_cast<sockaddr&>(storage);
  if (::getpeername(fd, &address, &length) != 0) return "a foreign process";
  if (storage.ss_family == AF_UNIX) {
    ucred credentials{};
    length = sizeof credentials;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
      return "a foreign process";
    return fmt::format("process {} of user {}", credentials.pid, credentials.uid);
  }
  return fmt::format("the process at {}", host_text(address));
}

bool is_same_user(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 &&
         credentials.uid == ::geteuid();
}

}  // namespace weft::peer
