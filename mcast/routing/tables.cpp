// From trees to forwarding tables.
#include <algorithm>
#include <map>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

Tables make_tables(const Topology& topology, const std::vector<Tree>& trees) {
  Tables tables;
  const auto add = [&](uint32_t s, uint32_t color, uint16_t port) {
    tables[topology.nodes[topology.switch_nodes[s]].guid][color].push_back(port);
  };
  for (const Tree& tree : trees) {
    for (const uint32_t link : tree.links) {
      const Arc& arc = topology.arcs[link];
      add(topology.arc_from[link], tree.color, arc.port);
      add(arc.to, tree.color, topology.arcs[arc.reverse].port);
    }
    for (const uint32_t m : tree.members) {
      add(topology.endpoints[m].on_switch, tree.color, topology.endpoints[m].switch_port);
    }
  }
  for (auto& [guid, entries] : tables) {
    for (auto& [color, ports] : entries) std::sort(ports.begin(), ports.end());
  }
  return tables;
}

Served served_groups(const std::vector<Group>& groups, const std::vector<Tree>& trees) {
  Served served;
  for (const Tree& tree : trees) {
    for (const uint32_t g : tree.groups) {
      served.groups.push_back(groups[g]);
      served.entry_of.push_back(tree.color);
    }
  }
  return served;
}

}  // namespace weft::mcast
