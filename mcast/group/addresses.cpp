#include "mcast/group/addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace weft::mcast {

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* item = all; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || item->ifa_addr->sa_family != AF_INET ||
        (item->ifa_flags & IFF_LOOPBACK) != 0 || (item->ifa_flags & IFF_UP) == 0)
      continue;
    char text[INET_ADDRSTRLEN];
    const auto* address = reinterpret_cast<const sockaddr_in*>(item->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr)
      addresses.emplace_back(text);
  }
  ::freeifaddrs(all);
  return addresses;
}

std::string address_towards(const std::string& other) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  if (::inet_pton(AF_INET, other.c_str(), &to.sin_addr) != 1) return {};
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return {};
  sockaddr_in own{};
  socklen_t length = sizeof own;
  char text[INET_ADDRSTRLEN] = {};
  // Connecting a UDP socket sends no packet.
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0)
    ::inet_ntop(AF_INET, &own.sin_addr, text, sizeof text);
  ::close(socket);
  return text;
}

}  // namespace weft::mcast
