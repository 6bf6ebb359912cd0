#include "peer/sockets.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

namespace weft::peer {

Status resolve(std::string_view text, SocketAddress& address) {
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
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(host.empty() ? "0.0.0.0" : host.c_str(), port.c_str(), &hints, &found);
  if (failed != 0) return {Code::not_found, fmt::format("'{}': {}", text, ::gai_strerror(failed))};
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return {};
}

std::string bound_text(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length);
  char host[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
    return fmt::format("[{}]:{}", host, ntohs(v6.sin6_port));
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
  ::inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
  return fmt::format("{}:{}", host, ntohs(v4.sin_port));
}

bool is_same_user(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 &&
         credentials.uid == ::geteuid();
}

}  // namespace weft::peer
