// From trees to forwarding tables, and what trees cost.
#include <algorithm>
#include <map>
#include <set>

#include "routing/tree_building.hpp"
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

Figures measure(const Topology& topology, const std::vector<Tree>& trees) {
  Figures figures;
  std::vector<uint32_t> load(topology.arcs.size()), host_load(topology.endpoints.size());
  std::set<uint32_t> colors;
  uint64_t groups = 0;
  for (const Tree& tree : trees) {
    const uint32_t tfi = static_cast<uint32_t>(tree.groups.size());
    groups += tfi;
    colors.insert(tree.color);
    figures.max_tfi = std::max(figures.max_tfi, tfi);
    for (const uint32_t link : tree.links) load[cable_of(topology, link)] += tfi;
    for (const uint32_t m : tree.members) host_load[m] += tfi;
    // Height: hops from the root along the tree.
    std::map<uint32_t, std::vector<uint32_t>> at;
    for (const uint32_t link : tree.links) {
      at[topology.arc_from[link]].push_back(topology.arcs[link].to);
      at[topology.arcs[link].to].push_back(topology.arc_from[link]);
    }
    std::set<uint32_t> seen{tree.root};
    std::vector<uint32_t> level{tree.root};
    for (uint32_t height = 0; !level.empty(); ++height) {
      figures.max_height = std::max(figures.max_height, height);
      std::vector<uint32_t> next;
      for (const uint32_t s : level) {
        for (const uint32_t to : at[s]) {
          if (seen.insert(to).second) next.push_back(to);
        }
      }
      level = std::move(next);
    }
  }
  uint64_t sum = 0, cables = 0;
  for (uint32_t a = 0; a < load.size(); ++a) {
    if (cable_of(topology, a) != a) continue;
    figures.max_efi = std::max(figures.max_efi, load[a]);
    sum += load[a];
    ++cables;
  }
  for (const uint32_t l : host_load) figures.max_host_efi = std::max(figures.max_host_efi, l);
  figures.trees = static_cast<uint32_t>(trees.size());
  figures.colors = static_cast<uint32_t>(colors.size());
  figures.mean_efi = cables ? double(sum) / cables : 0;
  figures.mean_tfi = trees.empty() ? 0 : double(groups) / trees.size();
  return figures;
}

}  // namespace weft::mcast
