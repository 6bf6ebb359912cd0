#pragma once
// Under which of this machine's IPv4 addresses others reach it. Any thread.
#include <string>
#include <vector>

namespace weft::mcast {

// The addresses of interfaces that are up, but not the loopback's.
std::vector<std::string> own_addresses();
// This machine's own on the way to another one; empty: there is no way. Sends nothing.
std::string address_towards(const std::string& other);

}  // namespace weft::mcast
