#include "coll/offload/placement.hpp"

#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>

#include "coll/switch/socket_address.hpp"

namespace weft::offload {

using innet::Address;

std::vector<std::vector<int>> lead(const std::vector<Location>& locations, Mode mode) {
  std::vector<std::vector<int>> groups;
  std::vector<std::pair<int, int>> keys;
  for (std::size_t rank = 0; rank < locations.size(); ++rank) {
    const std::pair key(locations[rank].node, mode == Mode::socket ? locations[rank].socket : 0);
    const auto found = std::find(keys.begin(), keys.end(), key);
    if (found == keys.end()) {
      keys.push_back(key);
      groups.emplace_back();
    }
    groups[static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin())]
        .push_back(static_cast<int>(rank));
  }
  return groups;
}

Mode mode_that_fits(const std::vector<Location>& locations, Mode wanted) {
  if (wanted != Mode::socket) return wanted;
  std::vector<Address> tors;
  for (const auto& members : lead(locations, wanted))
    tors.push_back(locations[static_cast<std::size_t>(members[0])].tor);
  const auto fits = [&](const Address& tor) {
    return std::ranges::count(tors, tor) <= innet::kMaxChildren;
  };
  return std::ranges::all_of(tors, fits) ? wanted : Mode::node;
}

std::optional<Address> find_switch(const std::string& text, std::string& error) {
  if (const auto address = innet::parse_address(text)) return address;
  const std::size_t colon = text.rfind(':');
  error = fmt::format("\"{}\" is no ADDRESS:PORT, [IPV6]:PORT or NAME:PORT", text);
  if (colon == 0 || colon == std::string::npos) return {};
  const std::string name = text.substr(0, colon);
  // No name, but an IPv6 address without its brackets or a wrong one in them.
  if (name.find_first_of(":[]") != name.npos) return {};
  // An address with this port says whether it is one.
  const auto address = innet::parse_address("127.0.0.1" + text.substr(colon));
  if (!address) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* all = nullptr;
  if (const int failed = ::getaddrinfo(name.c_str(), nullptr, &hints, &all); failed != 0) {
    error = fmt::format("the switch \"{}\": {}", name, ::gai_strerror(failed));
    return {};
  }
  // IPv4 before IPv6, which RoCEv2 needs, and the resolver's order of each.
  std::vector<Address> addresses;
  for (const int family : {AF_INET, AF_INET6})
    for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
      innet::SocketAddress raw;
      if (one->ai_family != family || one->ai_addrlen > sizeof raw.ipv6) continue;
      std::memcpy(&raw.ipv6, one->ai_addr, one->ai_addrlen);
      addresses.push_back(innet::from_socket(raw));
      addresses.back().port = address->port;
    }
  ::freeaddrinfo(all);
  if (addresses.empty()) return {};
  return first_with_route(addresses);
}

Address first_with_route(std::span<const Address> addresses) {
  for (const Address& one : addresses) {
    const int family = innet::family_of(one);
    const int fd = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    const innet::SocketAddress raw = innet::to_socket(one, family);
    // Sends nothing.
    const bool has_route = ::connect(fd, &raw.any, raw.bytes) == 0;
    ::close(fd);
    if (has_route) return one;
  }
  return addresses.front();
}

bool read_placement(std::string_view text, int size, std::vector<Location>& locations,
                    std::string& error) {
  locations.assign(static_cast<std::size_t>(size), Location{});
  std::vector<bool> seen(static_cast<std::size_t>(size));
  std::map<std::string, std::optional<Address>> switches;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    line.resize(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    std::string ranks, address, more;
    Location location;
    if (!(words >> ranks)) continue;
    int first = 0, last = 0;
    char rest = 0;
    const int read = std::sscanf(ranks.c_str(), "%d-%d%c", &first, &last, &rest);
    if (read == 1) last = first;
    const std::string single = std::to_string(first);
    if (read < 1 || read > 2 || (read == 1 && ranks != single) || first < 0 || last < first ||
        last >= size || !(words >> location.node >> location.socket >> address) || words >> more) {
      error = fmt::format("line {}: not RANK[-RANK] NODE SOCKET SWITCH:PORT with ranks below {}",
                          number, size);
      return false;
    }
    // Every name is asked for once.
    auto& tor = switches[address];
    if (std::string why; !tor && !(tor = find_switch(address, why))) {
      error = fmt::format("line {}: {}", number, why);
      return false;
    }
    location.tor = *tor;
    for (int rank = first; rank <= last; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      if (seen[at]) {
        error = fmt::format("line {}: rank {} was there before", number, rank);
        return false;
      }
      seen[at] = true;
      locations[at] = location;
    }
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing == seen.end()) return true;
  error = fmt::format("rank {} is missing", missing - seen.begin());
  return false;
}

}  // namespace weft::offload
