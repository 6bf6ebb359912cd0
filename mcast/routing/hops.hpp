#pragma once
// Hop distances between switches, and what the routers ask of them.
//
// A row (distances from one switch to all) is one breadth-first search, made when first asked for;
// a group needs the rows of its members' switches only. A row is a byte per switch, so the maximum
// over a group's members is a loop that the compiler turns into vector instructions.
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

class Hops {
 public:
  static constexpr uint8_t kFar = 255;  // not reachable, or further than 254 hops
  explicit Hops(const Topology& topology) : topology_(topology), rows_(topology.num_switches()) {}
  const uint8_t* row(uint32_t from);

 private:
  // Rows beyond this are forgotten all at once; a caller holds a row only until its next call of
  // prepare().
  static constexpr uint64_t kBudgetBytes = 1ull << 30;

 public:
  // To be called before each group: makes room if needed.
  void prepare();

 private:
  const Topology& topology_;
  std::vector<std::unique_ptr<uint8_t[]>> rows_;
  std::vector<uint32_t> queue_;
  uint64_t bytes_ = 0;
};

// The switches that members hang on, each once, in order of first appearance.
std::vector<uint32_t> member_switches(const Topology& topology,
                                      const std::vector<uint32_t>& members);

// Into *worst: for each switch, the most hops to any of `targets`.
void eccentricities(const Topology& topology, Hops& hops, const std::vector<uint32_t>& targets,
                    std::vector<uint8_t>* worst);

}  // namespace weft::mcast
