#pragma once
// What weft-info --check asks the kernel of a host about the way to another: names, routes,
// connections, the largest packet. Each call ends within the time it is given. One thread.
#include <cstdint>
#include <string>
#include <vector>

#include "base/os/descriptor.hpp"
#include "weft/status.hpp"

namespace weft::check {

struct Interface {
  std::string name, address;  // numeric
  unsigned mtu = 0;
};
// Those that are up, without the loopback and link-local addresses.
std::vector<Interface> interfaces();

// The addresses of a name, numeric. timed_out: no name server answers.
Status resolve(const std::string& name, int timeout_ms, std::vector<std::string>& addresses);

struct Route {
  std::string interface, source, gateway;  // gateway: empty inside of one network
};
// Of packets to `to`, from the address `from` if there is one. not_found: the kernel's reason.
Status find_route(const std::string& to, const std::string& from, Route& route);

// The ports from which the kernel takes those of connections and listeners without one.
struct Ports {
  int first = 0, last = 0;
};
Ports port_range();

// A TCP socket that listens at the address and this port, or the next ones that are free; 0: any.
Status listen_at(const std::string& address, int port, Descriptor& socket, int& bound);
Status bind_datagrams(const std::string& address, Descriptor& socket, int& bound);
// Answers what is there, with eight bytes each.
void echo_datagrams(const Descriptor& socket);

struct Attempt {
  int port = 0;
  int error = 0;  // ETIMEDOUT: nothing answers
  double us = 0;
};
// Connects to all ports at once.
std::vector<Attempt> connect_to(const std::string& address, const std::vector<int>& ports,
                                int timeout_ms);

// The largest IP packet up to `most` bytes that reaches the echo at this port, in one piece; 0:
// none.
unsigned largest_packet(const std::string& address, int port, unsigned most);

}  // namespace weft::check
