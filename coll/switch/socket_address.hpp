#pragma once
// Addresses as UDP sockets have them, of IPv4 and IPv6. Pure functions; any thread.
#include <netinet/in.h>

#include "coll/switch/address.hpp"

namespace weft::innet {

struct SocketAddress {
  union {
    sockaddr any;
    sockaddr_in ipv4;
    sockaddr_in6 ipv6;
  };
  socklen_t bytes = sizeof(sockaddr_in6);
};

inline int family_of(const Address& address) noexcept {
  return address.is_ipv6 ? AF_INET6 : AF_INET;
}
// For a socket of that family; one of IPv6 reaches IPv4 addresses too. An IPv6 address for a socket
// of IPv4 is one that the kernel refuses.
SocketAddress to_socket(const Address& address, int family) noexcept;
Address from_socket(const SocketAddress& raw) noexcept;
// The address that a socket is bound to; all zeros if it is not one of these.
Address own_address(int fd) noexcept;

}  // namespace weft::innet
