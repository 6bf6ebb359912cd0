#include "mcast/group/addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "multicast/channel.hpp"

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
  peer::SocketAddress to, own;
  auto& name = reinterpret_cast<sockaddr_in&>(to.storage);
  name.sin_family = AF_INET;
  name.sin_port = htons(9);
  to.length = sizeof name;
  char text[INET_ADDRSTRLEN] = {};
  if (::inet_pton(AF_INET, other.c_str(), &name.sin_addr) == 1 && local_towards(to, own))
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(own.storage).sin_addr, text,
                sizeof text);
  return text;
}

}  // namespace weft::mcast
