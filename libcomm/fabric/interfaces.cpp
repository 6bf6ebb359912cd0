#include "fabric/interfaces.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <tuple>

namespace weft::fabric {
namespace {

// Name prefixes of the bridges and links that container engines, libvirt and Kubernetes make.
constexpr std::string_view kOfContainers[] = {"docker", "br-", "virbr", "veth", "cni", "podman"};

bool is_v6(std::string_view address) { return address.find(':') != std::string_view::npos; }

bool is_loopback(const Interface& interface) {
  return interface.name == "lo" || interface.address.starts_with("127.") ||
         interface.address == "::1";
}

bool is_of_containers(const Interface& interface) {
  return !interface.has_default_route &&
         std::any_of(std::begin(kOfContainers), std::end(kOfContainers),
                     [&](std::string_view start) { return interface.name.starts_with(start); });
}

// The less, the better.
auto order(const Interface& interface) {
  const bool v6 = is_v6(interface.address);
  return std::tuple(is_loopback(interface), is_of_containers(interface), v6,
                    !interface.has_default_route);
}

// The address's bytes; false: it is none.
bool read_address(const std::string& text, std::string& bytes) {
  bytes.resize(is_v6(text) ? sizeof(in6_addr) : sizeof(in_addr));
  return inet_pton(is_v6(text) ? AF_INET6 : AF_INET, text.c_str(), bytes.data()) == 1;
}

bool starts_alike(const std::string& a, const std::string& b, std::size_t bits) {
  if (a.size() != b.size() || bits > a.size() * 8) return false;
  if (a.compare(0, bits / 8, b, 0, bits / 8) != 0) return false;
  const auto rest = static_cast<unsigned>(bits % 8);
  return rest == 0 || static_cast<unsigned char>(a[bits / 8] ^ b[bits / 8]) >> (8 - rest) == 0;
}

bool is_wanted(const Interface& interface, const std::string& wanted) {
  if (wanted.empty() || wanted == interface.name) return true;
  const std::size_t slash = wanted.find('/');
  std::string here, there;
  if (!read_address(wanted.substr(0, slash), there) || !read_address(interface.address, here))
    return false;
  std::size_t bits = there.size() * 8;
  if (slash != std::string::npos) {
    const char* end = wanted.data() + wanted.size();
    const auto read = std::from_chars(wanted.data() + slash + 1, end, bits);
    if (read.ec != std::errc() || read.ptr != end) return false;
  }
  return starts_alike(here, there, bits);
}

}  // namespace

Status choose_interface(const std::vector<Interface>& interfaces, const std::string& wanted,
                        std::size_t& chosen) {
  chosen = interfaces.size();
  for (std::size_t i = 0; i < interfaces.size(); ++i)
    if (is_wanted(interfaces[i], wanted) &&
        (chosen == interfaces.size() || order(interfaces[i]) < order(interfaces[chosen])))
      chosen = i;
  if (chosen != interfaces.size()) return {};
  return {Code::bad_setting, fmt::format("WEFT_INTERFACE={} is none of what there is: {}", wanted,
                                         list_text(interfaces))};
}

std::string list_text(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& interface : interfaces)
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", interface.name,
                        interface.address.empty() ? "" : " ", interface.address);
  return text;
}

std::string address_text(std::string_view bytes) {
  sockaddr_storage storage{};
  std::memcpy(&storage, bytes.data(), std::min(bytes.size(), sizeof storage));
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET && bytes.size() >= sizeof(sockaddr_in))
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(storage).sin_addr, text, sizeof text);
  if (storage.ss_family == AF_INET6 && bytes.size() >= sizeof(sockaddr_in6))
    inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6&>(storage).sin6_addr, text, sizeof text);
  return text;
}

bool is_link_local(std::string_view address) noexcept {
  return address.starts_with("fe8") || address.starts_with("fe9") || address.starts_with("fea") ||
         address.starts_with("feb");
}

// The kernel's tables, a route a line. IPv4: interface, destination, gateway, flags, two counts,
// metric (in decimal), mask. IPv6: destination, its prefix, source, its prefix, gateway, metric,
// two counts, flags, interface. All but the metric of IPv4 in hexadecimal.
std::string default_route(bool for_v6) {
  constexpr std::uint64_t kUp = 0x1, kReject = 0x200;  // of flags
  std::ifstream routes(for_v6 ? "/proc/net/ipv6_route" : "/proc/net/route");
  std::string best;
  std::uint64_t best_metric = std::numeric_limits<std::uint64_t>::max();
  for (std::string line; std::getline(routes, line);) {
    std::istringstream fields(line);
    std::string name, destination, prefix, skipped;
    std::uint64_t flags = 0, metric = 0;
    if (for_v6)
      fields >> destination >> prefix >> skipped >> skipped >> skipped >> std::hex >> metric >>
          skipped >> skipped >> flags >> name;
    else
      fields >> name >> destination >> skipped >> std::hex >> flags >> skipped >> skipped >>
          std::dec >> metric >> prefix;
    const bool for_all = (destination + prefix).find_first_not_of('0') == std::string::npos;
    if (fields.fail() || !for_all || (flags & (kUp | kReject)) != kUp || metric >= best_metric)
      continue;
    best = name;
    best_metric = metric;
  }
  return best;
}

}  // namespace weft::fabric
