#pragma once
// The sockets of the fabric tcp: where it listens, and its connections. Addresses are the bytes of
// a sockaddr of IPv4 or IPv6. Any thread.
#include <string>
#include <vector>

#include "base/os/descriptor.hpp"
#include "base/settings.hpp"
#include "fabric/endpoint.hpp"
#include "fabric/interfaces.hpp"

namespace weft::fabric::tcp {

// The interfaces that are up, the one that the settings choose first. unsupported: there is none;
// bad_setting: none is as wanted.
Status find_interfaces(const Settings& settings, std::vector<Interface>& interfaces);

// Listens at this interface, at a port that the kernel chooses. `traffic_class`: of the connections
// that come; 0: the system's.
Status listen_at(const Interface& interface, std::uint8_t traffic_class, Descriptor& socket,
                 std::string& address);

// Begins a connection from the interface of `own`. bad_argument: `to` is no address of its kind.
// `at_once`: how it has ended already, not_found if the host refuses it; else ok.
Status connect_to(Bytes to, const std::string& own, std::uint8_t traffic_class, Descriptor& socket,
                  Code& at_once);

// Null: nobody waits (again), or no descriptors are left (no_memory).
Descriptor accept_from(const Descriptor& listener, Code& code);

}  // namespace weft::fabric::tcp
