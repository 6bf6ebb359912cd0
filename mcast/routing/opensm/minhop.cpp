// MINIHOP-MC as OpenSM builds it: each group's tree by itself, from the root down, always by the
// lowest port that leads one hop nearer.
#include "mcast/routing/hops.hpp"
#include "mcast/routing/opensm/rules.hpp"
#include "mcast/routing/tree_building.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

Status route_minhop(const Topology& topology, const std::vector<Group>& groups,
                    std::vector<Tree>* trees) {
  static_assert(Hops::kFar == kOpensmNoPath);
  trees->clear();
  if (topology.num_switches() == 0) return {Code::bad_argument, "the fabric has no switch"};
  Hops hops(topology);
  const std::vector<uint32_t> order = opensm_switch_order(topology);
  std::vector<uint32_t> stamp(topology.num_switches());
  std::vector<uint32_t> link_stamp(topology.arcs.size());
  uint32_t now = 0;
  for (uint32_t g = 0; g < groups.size(); ++g) {
    if (groups[g].members.size() < 2) continue;  // OpenSM has nothing to do for these
    hops.prepare();
    const uint32_t root = opensm_root(topology, order, groups[g].members,
                                      [&](uint32_t target) { return hops.row(target); });
    if (root == kNone) {
      return {Code::not_found, "group " + groups[g].id + ": its members cannot reach each other"};
    }
    Tree tree;
    tree.color = g;
    tree.root = root;
    tree.members = groups[g].members;
    tree.groups.assign(1, g);
    ++now;
    stamp[root] = now;
    tree.switches.push_back(root);
    for (const uint32_t target : member_switches(topology, groups[g].members)) {
      const uint8_t* row = hops.row(target);
      for (uint32_t at = root; at != target;) {
        uint32_t a = topology.arc_begin[at];
        while (row[topology.arcs[a].to] + 1 != row[at]) ++a;
        if (link_stamp[cable_of(topology, a)] != now) {
          link_stamp[cable_of(topology, a)] = now;
          tree.links.push_back(a);
        }
        at = topology.arcs[a].to;
        if (stamp[at] != now) tree.switches.push_back(at);
        stamp[at] = now;
      }
    }
    trees->push_back(std::move(tree));
  }
  return Code::ok;
}

}  // namespace weft::mcast
