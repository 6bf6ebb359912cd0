#pragma once
// Inspection: what a fabric finds wrong, or right, with this host, and the places from which an
// endpoint of it may be opened here. For weft-info --check. Any thread.
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.hpp"
#include "base/settings.hpp"
#include "fabric/interfaces.hpp"

namespace weft::fabric {

// A port of a device, or a network interface.
struct Place {
  std::string name;       // "mlx5_0:1", as WEFT_DEVICE has it, or the fabric's "eth0"
  std::string interface;  // of the network; empty: none is known
  std::string address;    // numeric; empty: none that the kernel routes to
  double gbit_per_s = 0;  // 0: nobody knows
  unsigned mtu = 0;       // bytes of a packet's payload over it; 0: nobody knows
};

struct Inspection {
  std::vector<Finding> findings;
  std::vector<Place> places;
};

// Of the fabric of this name (registry.hpp). False: it has nothing to say, or is not in this build.
bool inspect(const Settings& settings, std::string_view name, Inspection& inspection);

// Of a fabric over this network interface: what the kernel says of it, and a place there. `what`:
// the fabric's own words before it, as "net on ".
void inspect_interface(std::string_view fabric, std::string_view what, const Interface& interface,
                       Inspection& inspection);

}  // namespace weft::fabric
