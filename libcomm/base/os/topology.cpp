#include "base/os/topology.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <hwloc.h>
#include <sched.h>
#include <string.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

namespace weft {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Handle = std::unique_ptr<hwloc_topology, Destroy>;

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

std::vector<int> cpus_of(hwloc_const_cpuset_t set) {
  std::vector<int> cpus;
  if (set == nullptr) return cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
    cpus.push_back(cpu);
  return cpus;
}

bool contains(const std::vector<int>& cpus, int cpu) {
  return std::ranges::binary_search(cpus, cpu);
}

}  // namespace

std::vector<int> usable_cpus() {
  // The kernel refuses a set that is smaller than its own, and does not report its size.
  for (int room = 1024; room <= 1 << 20; room *= 2) {
    const std::unique_ptr<cpu_set_t, FreeCpuSet> set(CPU_ALLOC(room));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(room);
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> cpus;
    for (int cpu = 0; cpu < room; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
    return cpus;
  }
  return {0};
}

std::string common_cache() {
  const std::vector<int> usable = usable_cpus();
  std::string cpus;
  for (int index = 0;; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/cache/index{}/shared_cpu_list",
                                   usable.front(), index));
    if (!std::getline(file, cpus)) break;
  }
  if (cpus.empty()) return "?";
  const auto has = [&cpus](int cpu) {
    std::istringstream ranges(cpus);
    for (std::string range; std::getline(ranges, range, ',');) {
      int first = 0, last = 0;
      const int count = std::sscanf(range.c_str(), "%d-%d", &first, &last);
      if (count >= 1 && cpu >= first && cpu <= (count == 2 ? last : first)) return true;
    }
    return false;
  };
  return std::ranges::all_of(usable, has) ? cpus : "";
}

int num_usable_cpus() { return static_cast<int>(usable_cpus().size()); }

Status Topology::read(Topology& out) {
  hwloc_topology* raw = nullptr;
  if (hwloc_topology_init(&raw) != 0)
    return {Code::unsupported, fmt::format("hwloc: {}", strerror(errno))};
  const Handle handle(raw);
  if (hwloc_topology_load(raw) != 0)
    return {Code::unsupported, fmt::format("hwloc: {}", strerror(errno))};

  Topology topology;
  const std::vector<int> usable = usable_cpus();
  std::vector<int> placed;
  const int num_cores = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_CORE);
  for (int i = 0; i < num_cores; ++i) {
    std::vector<int> core;
    for (int cpu :
         cpus_of(hwloc_get_obj_by_type(raw, HWLOC_OBJ_CORE, static_cast<unsigned>(i))->cpuset))
      if (contains(usable, cpu)) core.push_back(cpu);
    placed.insert(placed.end(), core.begin(), core.end());
    if (!core.empty()) topology.cores_.push_back(std::move(core));
  }
  // Some virtual machines report processors but no cores.
  std::ranges::sort(placed);
  for (int cpu : usable)
    if (!contains(placed, cpu)) topology.cores_.push_back({cpu});

  for (int level = 1; level <= 5; ++level) {
    const int depth =
        hwloc_get_cache_type_depth(raw, static_cast<unsigned>(level), HWLOC_OBJ_CACHE_DATA);
    if (depth < 0) continue;
    for (hwloc_obj_t cache = hwloc_get_obj_by_depth(raw, depth, 0); cache != nullptr;
         cache = cache->next_cousin)
      topology.caches_.push_back(
          {level, cache->attr->cache.size, cache->attr->cache.linesize, cpus_of(cache->cpuset)});
  }
  for (hwloc_obj_t node = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_NUMANODE, nullptr);
       node != nullptr; node = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_NUMANODE, node))
    topology.numa_nodes_.push_back({static_cast<int>(node->os_index),
                                    node->attr->numanode.local_memory, cpus_of(node->cpuset)});
  for (hwloc_obj_t package = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_PACKAGE, nullptr);
       package != nullptr; package = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_PACKAGE, package))
    topology.sockets_.push_back(cpus_of(package->cpuset));
  out = std::move(topology);
  return {};
}

int Topology::num_cpus() const noexcept {
  std::size_t num = 0;
  for (const auto& core : cores_) num += core.size();
  return static_cast<int>(num);
}

Sharing Topology::sharing(int a, int b) const noexcept {
  if (a == b) return Sharing::core;
  for (const auto& core : cores_)
    if (contains(core, a) && contains(core, b)) return Sharing::core;
  const int last_level = caches_.empty() ? 0 : caches_.back().level;
  for (const Cache& cache : caches_)
    if (contains(cache.cpus, a) && contains(cache.cpus, b))
      return cache.level == last_level ? Sharing::last_cache : Sharing::inner_cache;
  for (const NumaNode& node : numa_nodes_)
    if (contains(node.cpus, a) && contains(node.cpus, b)) return Sharing::node;
  return Sharing::nothing;
}

Sharing Topology::sharing(const std::vector<int>& a, const std::vector<int>& b) const noexcept {
  Sharing worst = Sharing::core;
  for (int cpu_a : a)
    for (int cpu_b : b) worst = std::min(worst, sharing(cpu_a, cpu_b));
  return worst;
}

}  // namespace weft
