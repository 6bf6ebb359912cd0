#pragma once
// Building one tree of least height along lightly loaded cables (algorithm 2 of the paper).
#include <vector>

#include "routing/hops.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

// Both directions of a cable share one load: that of the lower arc.
inline uint32_t cable_of(const Topology& topology, uint32_t arc) {
  return arc < topology.arcs[arc].reverse ? arc : topology.arcs[arc].reverse;
}

class TreeBuilder {
 public:
  explicit TreeBuilder(const Topology& topology)
      : topology_(topology), stamp_(topology.num_switches()) {}

  // From every target towards the root, always one hop nearer, over the least loaded cable; stops
  // where the tree already is. Fills root, switches and links of *tree. Every target must reach the
  // root.
  void bottom_up(Hops& hops, uint32_t root, const std::vector<uint32_t>& targets,
                 const std::vector<uint32_t>& load, Tree* tree) {
    const uint8_t* distance = hops.row(root);
    ++now_;
    tree->root = root;
    tree->switches.assign(1, root);
    tree->links.clear();
    stamp_[root] = now_;
    for (uint32_t at : targets) {
      while (stamp_[at] != now_) {
        stamp_[at] = now_;
        tree->switches.push_back(at);
        uint32_t best = kNone, best_load = kNone;
        for (uint32_t a = topology_.arc_begin[at]; a < topology_.arc_begin[at + 1]; ++a) {
          if (distance[topology_.arcs[a].to] + 1 != distance[at]) continue;
          const uint32_t l = load[cable_of(topology_, a)];
          if (l < best_load) best = a, best_load = l;
        }
        tree->links.push_back(best);
        at = topology_.arcs[best].to;
      }
    }
  }

 private:
  const Topology& topology_;
  std::vector<uint32_t> stamp_;
  uint32_t now_ = 0;
};

}  // namespace weft::mcast
