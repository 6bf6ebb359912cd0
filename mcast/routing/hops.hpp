#pragma once
// Hop distances between switches, and queries of the routers on them.
//
// A row holds the distances from one switch to all, a byte each, so the maximum over a group's
// members is a loop that the compiler turns into vector instructions. Rows are made when first
// used, a switch's together with its neighbours': one breadth-first search carries a bit for each
// of 64 starts, so a cable is visited once per level for all of them. Starts near each other
// reach a switch in few different levels, and neighbours are likely to be used next. If the
// fabric has two sides, so that every cable leads from one to the other (a torus of even lengths, a
// fat tree), searches start on one side only: the rows of the other are minima of neighbours' rows.
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

class Hops {
 public:
  static constexpr uint8_t kFar = 255;  // not reachable, or further than 254 hops
  explicit Hops(const Topology& topology);
  const uint8_t* row(uint32_t from) {
    if (!rows_[from]) make(from);
    return rows_[from].get();
  }
  // Called before each group: makes room if needed, which invalidates all rows.
  void prepare();

 private:
  static constexpr uint64_t kBudgetBytes = 1ull << 30;
  static constexpr uint8_t kNoSide = 2;
  static constexpr size_t kReach = 8192;  // farther switches are no neighbours
  void divide(uint32_t from);
  void make(uint32_t from);
  void make_from_neighbours(uint32_t from);
  void search();
  void write_rows();

  const Topology& topology_;
  std::vector<std::unique_ptr<uint8_t[]>> rows_;
  struct Bits {
    uint64_t reached = 0, now = 0, next = 0;  // a bit per start
  };
  std::vector<Bits> at_;
  // Distances while a search goes on: word d of a switch has digit d (binary) for every start. A
  // byte of a row at a time would be a write to another line of memory for each start.
  std::vector<std::array<uint64_t, 8>> digits_;
  std::vector<uint8_t> side_;  // 0, 1 or kNoSide if not known yet
  bool two_sides_ = true;      // no cable so far has both ends on one side
  std::vector<uint32_t> to_;   // where each arc leads, without what else is known of arcs
  std::vector<uint32_t> starts_, ball_, seen_, frontier_, next_frontier_;
  uint32_t ball_number_ = 0;
  uint64_t bytes_ = 0;
  bool all_fit_ = false;  // all rows together stay within the budget
};

// The switches that members are attached to, each once, in order of first appearance.
std::vector<uint32_t> member_switches(const Topology& topology,
                                      const std::vector<uint32_t>& members);

// Into *worst: for each switch, the most hops to any of `targets`.
void eccentricities(const Topology& topology, Hops& hops, const std::vector<uint32_t>& targets,
                    std::vector<uint8_t>* worst);

}  // namespace weft::mcast
