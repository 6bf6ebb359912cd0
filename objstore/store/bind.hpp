#pragma once
// Binding of a store to the part of the machine next to the RDMA device, so that its reads and
// writes do not cross to another processor's memory.
#include <string>

#include "weft/status.hpp"

struct hwloc_topology;
struct hwloc_obj;

namespace weft::objstore {

// The part of the machine that an RDMA device is attached to; null if there is none.
hwloc_obj* part_of_rdma_device(hwloc_topology* topology, std::string& device);
// Binds this process and its future memory to the NUMA node of the first RDMA device. report: the
// binding, or why there is none. unsupported: the system refuses.
Status bind_to_numa(std::string& report);

}  // namespace weft::objstore
