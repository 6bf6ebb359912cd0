#include "launcher/hosts.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/os/host_name.hpp"
#include "job/rendezvous_link.hpp"

namespace weft::weftrun {
namespace {

constexpr int kMaxSlots = rendezvous::kMaxRanks;

bool parse_slots(std::string_view text, int& slots) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, slots);
  return error == std::errc{} && rest == end && slots >= 1 && slots <= kMaxSlots;
}

Status parse_host(std::string_view word, HostEntry& entry) {
  const Status bad{Code::bad_argument,
                   fmt::format("\"{}\" is no host: must be NAME or NAME:SLOTS", word)};
  std::string_view name = word;
  std::string_view slots;
  const std::size_t colon = word.rfind(':');
  if (word.starts_with('[')) {  // an IPv6 address
    const std::size_t end = word.find(']');
    if (end == std::string_view::npos) return bad;
    name = word.substr(1, end - 1);
    if (end + 1 < word.size()) {
      if (word[end + 1] != ':') return bad;
      slots = word.substr(end + 2);
      if (slots.empty()) return bad;
    }
  } else if (colon != std::string_view::npos && word.find(':') == colon) {
    name = word.substr(0, colon);
    slots = word.substr(colon + 1);
    if (slots.empty()) return bad;
  }
  // A name that begins with a dash would be taken for an option by the launch command.
  const bool plain = std::ranges::none_of(name, [](unsigned char c) { return c <= ' '; });
  if (name.empty() || name.starts_with('-') || !plain) return bad;
  if (!slots.empty() && !parse_slots(slots, entry.slots)) return bad;
  entry.name = name;
  return {};
}

std::string numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  else if (address->sa_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof text);
  return text;
}

// An address that another machine may reach; link-local ones would need the interface's name there.
bool is_global(const sockaddr* address) {
  if (address->sa_family == AF_INET) return true;
  if (address->sa_family != AF_INET6) return false;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// The source address that the kernel would take; nothing is sent.
std::string source_address_to(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return {};
  std::string source;
  for (const addrinfo* entry = found; entry != nullptr && source.empty(); entry = entry->ai_next) {
    const int fd = socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    auto* address = reinterpret_cast<sockaddr*>(&own);
    if (fd >= 0 && connect(fd, entry->ai_addr, entry->ai_addrlen) == 0 &&
        getsockname(fd, address, &length) == 0 && is_global(address))
      source = numeric(address);
    if (fd >= 0) close(fd);
  }
  freeaddrinfo(found);
  return source;
}

// The addresses of all interfaces that are up, or of the one with this name. IPv4 before IPv6.
std::vector<std::string> interface_addresses(const std::string& name) {
  std::vector<std::string> v4, v6;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    if (name.empty() ? (entry->ifa_flags & IFF_LOOPBACK) != 0 : name != entry->ifa_name) continue;
    if (!is_global(entry->ifa_addr)) continue;
    (entry->ifa_addr->sa_family == AF_INET ? v4 : v6).push_back(numeric(entry->ifa_addr));
  }
  freeifaddrs(all);
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

}  // namespace

Status parse_hosts(std::string_view text, std::vector<HostEntry>& hosts) {
  for (;;) {
    const std::size_t comma = text.find(',');
    HostEntry entry;
    Status status = parse_host(text.substr(0, comma), entry);
    if (!status) return status;
    hosts.push_back(std::move(entry));
    if (comma == std::string_view::npos) return {};
    text.remove_prefix(comma + 1);
  }
}

Status read_host_file(const std::string& path, std::vector<HostEntry>& hosts) {
  std::ifstream file(path);
  if (!file) return {Code::bad_argument, fmt::format("cannot read the host file {}", path)};
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::string_view rest = std::string_view(line).substr(0, line.find('#'));
    std::vector<std::string_view> words;
    for (;;) {
      const std::size_t begin = rest.find_first_not_of(" \t\r");
      if (begin == std::string_view::npos) break;
      rest.remove_prefix(begin);
      words.push_back(rest.substr(0, rest.find_first_of(" \t\r")));
      rest.remove_prefix(words.back().size());
    }
    if (words.empty()) continue;
    HostEntry entry;
    Status status = parse_host(words[0], entry);
    constexpr std::string_view kSlots = "slots=";
    // Open MPI's limit of --oversubscribe has no effect on slots.
    if (words.size() > 2 &&
        (words[2].starts_with("max_slots=") || words[2].starts_with("max-slots=")))
      words.pop_back();
    if (status && words.size() > 1 &&
        (words.size() > 2 || !words[1].starts_with(kSlots) ||
         !parse_slots(words[1].substr(kSlots.size()), entry.slots)))
      status = {Code::bad_argument, fmt::format("\"{}\": must be slots=NUMBER", words[1])};
    if (!status) return {status.code(), fmt::format("{}:{}: {}", path, number, status.text())};
    hosts.push_back(std::move(entry));
  }
  if (hosts.empty()) return {Code::bad_argument, fmt::format("no host is named in {}", path)};
  return {};
}

int count_slots(const std::vector<HostEntry>& hosts) {
  int sum = 0;
  for (const HostEntry& host : hosts) sum = std::min(sum + std::max(host.slots, 1), kMaxSlots);
  return sum;
}

Status place_ranks(const std::vector<HostEntry>& hosts, int num_ranks, bool oversubscribe,
                   bool in_turn, std::vector<std::vector<int>>& ranks) {
  const auto num_hosts = static_cast<int>(hosts.size());
  ranks.assign(hosts.size(), {});
  const bool counted = std::ranges::any_of(hosts, [](const HostEntry& h) { return h.slots > 0; });
  const int slots = count_slots(hosts);
  if (counted && num_ranks > slots && !oversubscribe)
    return {Code::bad_argument,
            fmt::format("{} processes on {} slots: give the hosts more slots, or --oversubscribe",
                        num_ranks, slots)};
  if (in_turn) {
    std::vector<int> left(hosts.size());
    int num_left = 0;
    for (int rank = 0, host = 0; rank < num_ranks; ++rank, host = (host + 1) % num_hosts) {
      if (num_left == 0) {
        for (std::size_t i = 0; i < hosts.size(); ++i) left[i] = std::max(hosts[i].slots, 1);
        num_left = slots;
      }
      while (left[static_cast<std::size_t>(host)] == 0) host = (host + 1) % num_hosts;
      --left[static_cast<std::size_t>(host)];
      --num_left;
      ranks[static_cast<std::size_t>(host)].push_back(rank);
    }
    return {};
  }
  for (int rank = 0, host = 0, left = std::max(hosts[0].slots, 1); rank < num_ranks; ++rank) {
    if (!counted) {
      host = static_cast<int>(static_cast<long>(rank) * num_hosts / num_ranks);
    } else if (left-- == 0) {
      host = (host + 1) % num_hosts;
      left = std::max(hosts[static_cast<std::size_t>(host)].slots, 1) - 1;
    }
    ranks[static_cast<std::size_t>(host)].push_back(rank);
  }
  return {};
}

bool is_this_machine(const std::string& name) {
  if (rendezvous::is_loopback(name)) return true;
  const std::string full = host_name();
  return name == full || name == full.substr(0, full.find('.'));
}

std::vector<std::string> addresses_towards(const std::string& host) {
  std::vector<std::string> addresses;
  const std::string direct = source_address_to(host);
  if (!direct.empty() && !rendezvous::is_loopback(direct)) addresses.push_back(direct);
  for (const std::string& address : interface_addresses(""))
    if (address != direct) addresses.push_back(address);
  return addresses;
}

std::string address_of(const std::string& address_or_interface) {
  const auto addresses = interface_addresses(address_or_interface);
  if (!addresses.empty()) return addresses[0];
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address_or_interface.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::string address = numeric(found->ai_addr);
  freeaddrinfo(found);
  return address;
}

}  // namespace weft::weftrun
