// The routings that MR4LMS is compared with. Both give every group an entry of its own.
#include <algorithm>
#include <queue>

#include "routing/hops.hpp"
#include "routing/tree_building.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

uint64_t byte_reversed(uint64_t guid) { return __builtin_bswap64(guid); }

Status unreachable(const Group& group) {
  return {Code::not_found, "group " + group.id + ": its members cannot reach each other"};
}

}  // namespace

Status route_minhop(const Topology& topology, const std::vector<Group>& groups,
                    std::vector<Tree>* trees) {
  trees->clear();
  Hops hops(topology);
  // OpenSM goes through the switches in the order of their GUIDs as bytes of a little-endian
  // machine, and takes the first that is best.
  std::vector<uint32_t> order(topology.num_switches());
  for (uint32_t s = 0; s < order.size(); ++s) order[s] = s;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return byte_reversed(topology.nodes[topology.switch_nodes[a]].guid) <
           byte_reversed(topology.nodes[topology.switch_nodes[b]].guid);
  });
  std::vector<uint32_t> stamp(topology.num_switches());
  std::vector<uint32_t> link_stamp(topology.arcs.size());
  uint32_t now = 0;
  for (uint32_t g = 0; g < groups.size(); ++g) {
    hops.prepare();
    // A host is one hop further away than the switch it hangs on; a switch is not.
    std::vector<uint8_t> worst(topology.num_switches(), 0);
    for (const uint32_t m : groups[g].members) {
      const Endpoint& end = topology.endpoints[m];
      const uint8_t* row = hops.row(end.on_switch);
      const uint8_t extra = end.switch_port != 0 ? 1 : 0;
      for (uint32_t s = 0; s < worst.size(); ++s) {
        const uint8_t d = row[s] == Hops::kFar ? row[s] : static_cast<uint8_t>(row[s] + extra);
        worst[s] = std::max(worst[s], d);
      }
    }
    uint32_t root = kNone;
    for (const uint32_t s : order) {
      if (root == kNone || worst[s] < worst[root]) root = s;
    }
    if (root == kNone || worst[root] == Hops::kFar) return unreachable(groups[g]);
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

Status route_paper_sssp(const Topology& topology, const std::vector<Group>& groups,
                        bool least_loaded, std::vector<Tree>* trees) {
  trees->clear();
  Hops hops(topology);
  const uint32_t n = topology.num_switches();
  std::vector<uint32_t> load(topology.arcs.size()), switch_load(n), back(n);
  std::vector<uint64_t> distance(n);
  for (uint32_t g = 0; g < groups.size(); ++g) {
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
