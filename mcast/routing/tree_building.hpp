#pragma once
// Building one tree of least height along lightly loaded cables (algorithm 2 of the paper).
#include <vector>

#include "mcast/routing/hops.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

// Both directions of a cable share one load: that of the lower arc.
inline uint32_t cable_of(const Topology& topology, uint32_t arc) {
  return arc < topology.arcs[arc].reverse ? arc : topology.arcs[arc].reverse;
}

class TreeBuilder {
 public:
  explicit TreeBuilder(const Topology& topology)
      : topology_(topology),
        stamp_(topology.num_switches()),
        cost_(topology.num_switches()),
        next_(topology.num_switches()) {}

  // From every target towards the root, always one hop nearer, over the least loaded cable; stops
  // where the tree already is. `distance`: hops to the root, kFar where no path may go. Fills root,
  // switches and links of *tree. Every target must reach the root.
  void bottom_up(const uint8_t* distance, uint32_t root, const std::vector<uint32_t>& targets,
                 const std::vector<uint32_t>& load, Tree* tree) {
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

  // The same, but each path is the best as a whole: the squares of its cables' loads are the least
  // that a shortest path to the root can have. Compares all shortest paths of the targets.
  void best_paths(const uint8_t* distance, uint32_t root, const std::vector<uint32_t>& targets,
                  const std::vector<uint32_t>& load, Tree* tree) {
    ++now_;
    for (const uint32_t t : targets) {
      if (layers_.size() <= distance[t]) layers_.resize(distance[t] + 1u);
      if (stamp_[t] != now_) layers_[distance[t]].push_back(t);
      stamp_[t] = now_;
    }
    for (size_t d = layers_.size(); d-- > 1;) {
      for (const uint32_t s : layers_[d]) {
        for (uint32_t a = topology_.arc_begin[s]; a < topology_.arc_begin[s + 1]; ++a) {
          const uint32_t to = topology_.arcs[a].to;
          if (distance[to] + 1u != d || stamp_[to] == now_) continue;
          stamp_[to] = now_;
          layers_[d - 1].push_back(to);
        }
      }
    }
    cost_[root] = 0;
    for (size_t d = 1; d < layers_.size(); ++d) {
      for (const uint32_t s : layers_[d]) {
        uint64_t best = UINT64_MAX;
        for (uint32_t a = topology_.arc_begin[s]; a < topology_.arc_begin[s + 1]; ++a) {
          const uint32_t to = topology_.arcs[a].to;
          if (distance[to] + 1u != d) continue;
          const uint64_t l = load[cable_of(topology_, a)] + 1;
          if (cost_[to] + l * l >= best) continue;
          best = cost_[to] + l * l;
          next_[s] = a;
        }
        cost_[s] = best;
      }
    }
    for (auto& layer : layers_) layer.clear();
    ++now_;
    tree->root = root;
    tree->switches.assign(1, root);
    tree->links.clear();
    stamp_[root] = now_;
    for (uint32_t at : targets) {
      for (; stamp_[at] != now_; at = topology_.arcs[next_[at]].to) {
        stamp_[at] = now_;
        tree->switches.push_back(at);
        tree->links.push_back(next_[at]);
      }
    }
  }

 private:
  const Topology& topology_;
  std::vector<uint32_t> stamp_;
  std::vector<uint64_t> cost_;
  std::vector<uint32_t> next_;
  std::vector<std::vector<uint32_t>> layers_;  // switches on shortest paths, by distance
  uint32_t now_ = 0;
};

}  // namespace weft::mcast
