#pragma once
// The IP address by which connections reach a port: on RoCE that of a GID of version 2, on
// InfiniBand that of a network interface over it (IPoIB). Of several, the one that hosts route
// rather than a link-local one, IPv4 rather than IPv6; and only one that the kernel's connection
// manager leads to this port, as it is what chooses the GID and the path of every connection. A
// table may also have GIDs of interfaces in other network namespaces, or that are down.
#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "fabric/verbs/device.hpp"

namespace weft::verbs {

// Sets the port's address, scope and, on RoCE, gid_index; or why_unusable.
void find_address(ibv_context* context, Port& port);

// All of a device's GIDs, of all ports.
std::vector<ibv_gid_entry> read_gids(ibv_context* context);

// The rank of an address to be reached by, higher is better. For tests.
int gid_rank(const ibv_gid& gid) noexcept;
std::string gid_address(const ibv_gid& gid);

}  // namespace weft::verbs
