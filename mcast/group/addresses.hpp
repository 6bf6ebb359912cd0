#pragma once
// The IPv4 addresses under which other hosts reach this one. Any thread.
#include <string>
#include <vector>

namespace weft::mcast {

// The addresses of all interfaces that are up, except the loopback.
std::vector<std::string> own_addresses();
// The local address of the route to another host; empty: there is no route. Sends nothing.
std::string address_towards(const std::string& other);

}  // namespace weft::mcast
