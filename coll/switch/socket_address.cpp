#include "coll/switch/socket_address.hpp"

#include <sys/socket.h>

#include <cstring>

namespace weft::innet {

SocketAddress to_socket(const Address& address, int family) noexcept {
  SocketAddress raw;
  std::memset(&raw.ipv6, 0, sizeof raw.ipv6);
  if (family == AF_INET && !address.is_ipv6) {
    raw.ipv4.sin_family = AF_INET;
    raw.ipv4.sin_port = htons(address.port);
    raw.ipv4.sin_addr.s_addr = htonl(address.ipv4);
    raw.bytes = sizeof raw.ipv4;
    return raw;
  }
  raw.ipv6.sin6_family = AF_INET6;
  raw.ipv6.sin6_port = htons(address.port);
  const auto bytes = mapped(address);
  std::memcpy(&raw.ipv6.sin6_addr, bytes.data(), bytes.size());
  return raw;
}

Address from_socket(const SocketAddress& raw) noexcept {
  Address address;
  if (raw.any.sa_family == AF_INET) {
    address.port = ntohs(raw.ipv4.sin_port);
    address.ipv4 = ntohl(raw.ipv4.sin_addr.s_addr);
  } else if (raw.any.sa_family == AF_INET6) {
    address.port = ntohs(raw.ipv6.sin6_port);
    std::array<std::uint8_t, 16> bytes;
    std::memcpy(bytes.data(), &raw.ipv6.sin6_addr, bytes.size());
    set_mapped(address, bytes);
  }
  return address;
}

Address own_address(int fd) noexcept {
  SocketAddress own;
  std::memset(&own.ipv6, 0, sizeof own.ipv6);
  if (getsockname(fd, &own.any, &own.bytes) != 0) return {};
  return from_socket(own);
}

}  // namespace weft::innet
