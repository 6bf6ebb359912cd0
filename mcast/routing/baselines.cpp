// SSSP-MC as the MR4LMS paper describes it, for comparison. Every group gets an entry of its own.
#include <algorithm>
#include <queue>

#include "mcast/routing/hops.hpp"
#include "mcast/routing/tree_building.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

Status unreachable(const Group& group) {
  return {Code::not_found, "group " + group.id + ": its members cannot reach each other"};
}

}  // namespace

Status route_paper_sssp(const Topology& topology, const std::vector<Group>& groups,
                        bool least_loaded, std::vector<Tree>* trees) {
  trees->clear();
  Hops hops(topology);
  const uint32_t n = topology.num_switches();
  std::vector<uint32_t> load(topology.arcs.size()), switch_load(n), back(n);
  std::vector<uint64_t> distance(n);
  for (uint32_t g = 0; g < groups.size(); ++g) {
    if (groups[g].members.size() < 2) continue;
    hops.prepare();
    const std::vector<uint32_t> targets = member_switches(topology, groups[g].members);
    std::vector<uint8_t> worst;
    eccentricities(topology, hops, targets, &worst);
    uint32_t root = 0;
    for (uint32_t s = 1; s < n; ++s) {
      if (worst[s] < worst[root] ||
          (least_loaded && worst[s] == worst[root] && switch_load[s] < switch_load[root])) {
        root = s;
      }
    }
    if (worst[root] == Hops::kFar) return unreachable(groups[g]);
    std::fill(distance.begin(), distance.end(), UINT64_MAX);
    using Item = std::pair<uint64_t, uint32_t>;
    std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
    distance[root] = 0;
    queue.push({0, root});
    while (!queue.empty()) {
      const auto [d, s] = queue.top();
      queue.pop();
      if (d != distance[s]) continue;
      for (uint32_t a = topology.arc_begin[s]; a < topology.arc_begin[s + 1]; ++a) {
        // One more than the groups on it: an unused cable must not be free of charge.
        const uint64_t next = d + 1 + load[cable_of(topology, a)];
        const uint32_t to = topology.arcs[a].to;
        if (next >= distance[to]) continue;
        distance[to] = next;
        back[to] = topology.arcs[a].reverse;
        queue.push({next, to});
      }
    }
    Tree tree;
    tree.color = g;
    tree.root = root;
    tree.members = groups[g].members;
    tree.groups.assign(1, g);
    tree.switches.push_back(root);
    std::vector<bool> in(n);
    in[root] = true;
    for (uint32_t at : targets) {
      while (!in[at]) {
        in[at] = true;
        tree.switches.push_back(at);
        tree.links.push_back(back[at]);
        at = topology.arcs[back[at]].to;
      }
    }
    for (const uint32_t link : tree.links) ++load[cable_of(topology, link)];
    for (const uint32_t s : tree.switches) ++switch_load[s];
    trees->push_back(std::move(tree));
  }
  return Code::ok;
}

}  // namespace weft::mcast
