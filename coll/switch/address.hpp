#pragma once
// Address: of a host or a switch, as both state machines know it. Pure functions; any thread.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::innet {

// The source or destination of a packet; opaque to both state machines.
struct Address {
  std::uint32_t ipv4 = 0;        // host order
  std::uint16_t port = 0;        // UDP: the port; RoCE: 4791
  std::uint16_t ingress = 0;     // RoCE: the switch's port
  std::uint32_t queue_pair = 0;  // RoCE: of the host
  bool is_ipv6 = false;          // then ipv6 counts, in its own order, and ipv4 is 0
  std::array<std::uint8_t, 16> ipv6{};
  bool operator==(const Address&) const = default;
};

// An IPv4 address as IPv6 has it, ::ffff:a.b.c.d, and an IPv6 address as it is; and back.
std::array<std::uint8_t, 16> mapped(const Address& address) noexcept;
void set_mapped(Address& address, const std::array<std::uint8_t, 16>& bytes) noexcept;

// Parses "127.0.0.1:9000" and "[fd00::1]:9000"; nullopt if the text is of neither form.
std::optional<Address> parse_address(std::string_view text);
std::string text(const Address& address);

}  // namespace weft::innet
