#pragma once
// Where in the machine a store runs: next to the RDMA device, so that what the device reads and
// writes does not cross to another processor's memory.
#include <string>

#include "weft/status.hpp"

struct hwloc_topology;
struct hwloc_obj;

namespace weft::objstore {

// The part of the machine that an RDMA device is attached to; null if there is none.
hwloc_obj* part_of_rdma_device(hwloc_topology* topology, std::string& device);
// Binds this process and its memory to be to the NUMA node of the first RDMA device. told: what was
// done, or why nothing was. unsupported: the system refuses.
Status bind_to_numa(std::string& told);

}  // namespace weft::objstore
