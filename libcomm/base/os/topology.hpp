#pragma once
// Topology: cores, caches and NUMA nodes of this machine, from hwloc. Read once (some
// milliseconds), constant afterwards; any thread may read it. Processors are in the kernel's
// numbering.
//
// Tests: tests/base/topology_test.cpp.
#include <cstddef>
#include <string>
#include <vector>

#include "weft/status.hpp"

namespace weft {

struct Cache {
  int level = 0;  // 1: closest to the core
  std::size_t size_bytes = 0;
  std::size_t line_bytes = 0;
  std::vector<int> cpus;  // that share it
};

struct NumaNode {
  int id = 0;
  std::size_t memory_bytes = 0;
  std::vector<int> cpus;
};

// The closest thing two processors have in common.
enum class Sharing { nothing, node, last_cache, inner_cache, core };

class Topology {
 public:
  // unsupported with hwloc's reason.
  static Status read(Topology& out);

  // The physical cores this process may run on, each as its usable processors. Never empty.
  const std::vector<std::vector<int>>& cores() const noexcept { return cores_; }
  int num_cores() const noexcept { return static_cast<int>(cores_.size()); }
  int num_cpus() const noexcept;
  // Data caches, from the innermost level outwards.
  const std::vector<Cache>& caches() const noexcept { return caches_; }
  const std::vector<NumaNode>& numa_nodes() const noexcept { return numa_nodes_; }
  // Packages, each as its processors.
  const std::vector<std::vector<int>>& sockets() const noexcept { return sockets_; }

  Sharing sharing(int cpu_a, int cpu_b) const noexcept;
  // The worst sharing between two processes, each given by the processors that it may run on: it
  // holds wherever the scheduler puts them.
  Sharing sharing(const std::vector<int>& cpus_a, const std::vector<int>& cpus_b) const noexcept;

 private:
  std::vector<std::vector<int>> cores_;
  std::vector<Cache> caches_;
  std::vector<NumaNode> numa_nodes_;
  std::vector<std::vector<int>> sockets_;
};

// The processors of the last cache, in the kernel's notation ("0-7"), if all processors that this
// thread may run on share it; empty if they share none, "?" if the kernel does not report it. Read
// from a file of the kernel: hwloc takes 7 ms for it, which each process of a job would pay at its
// start.
std::string common_cache();

// The number of processors that this process may use, by its affinity alone. Cheap, without hwloc.
int num_usable_cpus();
// The processors this thread may run on.
std::vector<int> usable_cpus();

}  // namespace weft
