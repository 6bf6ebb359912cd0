#include "coll/switch/address.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace weft::innet {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

std::array<std::uint8_t, 16> mapped(const Address& address) noexcept {
  if (address.is_ipv6) return address.ipv6;
  std::array<std::uint8_t, 16> bytes{};
  std::ranges::copy(kMapped, bytes.begin());
  for (std::size_t i = 0; i < 4; ++i)
    bytes[12 + i] = static_cast<std::uint8_t>(address.ipv4 >> (24 - 8 * i));
  return bytes;
}

void set_mapped(Address& address, const std::array<std::uint8_t, 16>& bytes) noexcept {
  address.is_ipv6 = !std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
  address.ipv4 = 0;
  address.ipv6 = {};
  if (address.is_ipv6)
    address.ipv6 = bytes;
  else
    for (std::size_t i = 12; i < 16; ++i) address.ipv4 = address.ipv4 << 8 | bytes[i];
}

std::optional<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return std::nullopt;
  std::string host(text.substr(0, colon));
  const std::string_view port = text.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number == 0 || number > 0xffff)
    return std::nullopt;
  Address address;
  address.port = static_cast<std::uint16_t>(number);
  const bool is_ipv6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_ipv6) host = host.substr(1, host.size() - 2);
  std::array<std::uint8_t, 16> bytes = mapped({});
  if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, host.c_str(), bytes.data() + (is_ipv6 ? 0 : 12)) != 1)
    return std::nullopt;
  set_mapped(address, bytes);
  return address;
}

std::string text(const Address& address) {
  const std::array<std::uint8_t, 16> bytes = mapped(address);
  char host[INET6_ADDRSTRLEN] = "?";
  inet_ntop(address.is_ipv6 ? AF_INET6 : AF_INET, bytes.data() + (address.is_ipv6 ? 0 : 12), host,
            sizeof host);
  return address.is_ipv6 ? fmt::format("[{}]:{}", host, address.port)
                         : fmt::format("{}:{}", host, address.port);
}

}  // namespace weft::innet
