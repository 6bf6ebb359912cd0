#include "bind.hpp"

#include <hwloc.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace weft::objstore {

hwloc_obj* part_of_rdma_device(hwloc_topology* topology, std::string& device) {
  hwloc_obj_t found = nullptr;
  while ((found = hwloc_get_next_osdev(topology, found)) != nullptr) {
    if (found->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS) continue;
    device = found->name != nullptr ? found->name : "?";
    return hwloc_get_non_io_ancestor_obj(topology, found);
  }
  return nullptr;
}

Status bind_to_numa(std::string& report) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {Code::unsupported, "--bind: hwloc can't begin"};
  const std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> topology(
      made, hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(made) != 0)
    return {Code::unsupported, "--bind: hwloc can't read this machine"};
  if (hwloc_get_nbobjs_by_type(made, HWLOC_OBJ_NUMANODE) < 2) {
    report = "this machine has one NUMA node";
    return Code::ok;
  }
  std::string device;
  const hwloc_obj_t part = part_of_rdma_device(made, device);
  if (part == nullptr) {
    report = "this machine has no RDMA device to be next to";
    return Code::ok;
  }
  if (hwloc_set_cpubind(made, part->cpuset, HWLOC_CPUBIND_PROCESS) != 0 ||
      hwloc_set_membind(made, part->nodeset, HWLOC_MEMBIND_BIND,
                        HWLOC_MEMBIND_PROCESS | HWLOC_MEMBIND_BYNODESET) != 0)
    return {Code::unsupported, "--bind numa: next to " + device + ": " + std::strerror(errno)};
  report = "next to " + device;
  return Code::ok;
}

}  // namespace weft::objstore
