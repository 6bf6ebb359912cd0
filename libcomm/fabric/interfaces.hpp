#pragma once
// The choice of the network interface of fabrics over a network: peers on other hosts must reach
// its address, which those of bridges to containers and virtual machines seldom are. Any thread.
//
// Tests: tests/fabric/interfaces_test.cpp.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "weft/status.hpp"

namespace weft::fabric {

struct Interface {
  std::string name;     // libfabric's domain, over TCP the network interface
  std::string address;  // IPv4 or IPv6; empty: the provider has addresses of another kind
  bool has_default_route = false;
};

// `wanted` is WEFT_INTERFACE: a name, an address or address/prefix; empty: any. Among the
// matching ones the order is: one of the default route, any other, one of containers, the loopback;
// IPv4 before IPv6, but not one of containers before IPv6; the first among equals. bad_setting:
// none matches; the text lists all interfaces.
Status choose_interface(const std::vector<Interface>& interfaces, const std::string& wanted,
                        std::size_t& chosen);

// "eth0 10.1.0.1, eth1 10.2.0.1"
std::string list_text(const std::vector<Interface>& interfaces);

// Of a sockaddr's bytes; empty: it is neither of IPv4 nor of IPv6.
std::string address_text(std::string_view bytes);

// Returns true for an IPv6 address that is valid only with its interface, which a peer cannot know.
bool is_link_local(std::string_view address) noexcept;

// The interface of the default route with the least metric, empty: none.
std::string default_route(bool for_v6);

}  // namespace weft::fabric
