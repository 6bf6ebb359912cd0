// The cost of trees: load of cables, heights, colours.
#include <algorithm>

#include "mcast/routing/tree_building.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

std::vector<uint32_t> cable_loads(const Topology& topology, const std::vector<Tree>& trees) {
  std::vector<uint32_t> load(topology.arcs.size());
  for (const Tree& tree : trees) {
    for (const uint32_t link : tree.links) {
      load[cable_of(topology, link)] += static_cast<uint32_t>(tree.groups.size());
    }
  }
  for (uint32_t a = 0; a < load.size(); ++a) load[a] = load[cable_of(topology, a)];
  return load;
}

uint32_t tree_efi(const Tree& tree, const std::vector<uint32_t>& loads) {
  uint32_t most = 0;
  for (const uint32_t link : tree.links) most = std::max(most, loads[link]);
  return most;
}

HeightMeter::HeightMeter(const Topology& topology)
    : topology_(topology),
      first_(topology.num_switches(), kNone),
      depth_(topology.num_switches()),
      parent_(topology.num_switches()) {}

uint32_t HeightMeter::height(const Tree& tree) {
  uint32_t hops = 0;
  farthest(tree, tree.root, &hops);
  return hops;
}

void HeightMeter::centre(Tree* tree) {
  uint32_t hops = 0;
  const uint32_t end = farthest(*tree, tree->root, &hops);
  tree->root = farthest(*tree, end, &hops);
  for (uint32_t i = 0; i < hops / 2; ++i) tree->root = parent_[tree->root];
}

uint32_t HeightMeter::farthest(const Tree& tree, uint32_t root, uint32_t* hops) {
  // The tree's cables as lists by switch: next_[2i] and next_[2i + 1] follow cable i's two ends.
  next_.resize(2 * tree.links.size());
  for (uint32_t i = 0; i < tree.links.size(); ++i) {
    const uint32_t from = topology_.arc_from[tree.links[i]], to = topology_.arcs[tree.links[i]].to;
    next_[2 * i] = first_[from];
    first_[from] = 2 * i;
    next_[2 * i + 1] = first_[to];
    first_[to] = 2 * i + 1;
  }
  queue_.assign(1, root);
  depth_[root] = 0;
  for (size_t head = 0; head < queue_.size(); ++head) {
    const uint32_t s = queue_[head];
    const uint32_t list = first_[s];
    first_[s] = kNone;  // a switch met again has no cables left, so every cable is followed once
    for (uint32_t end = list; end != kNone; end = next_[end]) {
      const uint32_t link = tree.links[end / 2];
      const uint32_t other = end % 2 == 0 ? topology_.arcs[link].to : topology_.arc_from[link];
      if (first_[other] == kNone) continue;
      depth_[other] = depth_[s] + 1;
      parent_[other] = s;
      queue_.push_back(other);
    }
  }
  for (const uint32_t s : tree.switches) first_[s] = kNone;
  *hops = depth_[queue_.back()];
  return queue_.back();
}

Figures measure(const Topology& topology, const std::vector<Tree>& trees) {
  Figures figures;
  const std::vector<uint32_t> load = cable_loads(topology, trees);
  std::vector<uint32_t> host_load(topology.endpoints.size());
  std::vector<bool> colors;
  HeightMeter meter(topology);
  uint64_t groups = 0, heights = 0;
  for (const Tree& tree : trees) {
    const uint32_t tfi = static_cast<uint32_t>(tree.groups.size());
    groups += tfi;
    if (colors.size() <= tree.color) colors.resize(tree.color + 1);
    colors[tree.color] = true;
    figures.max_tfi = std::max(figures.max_tfi, tfi);
    for (const uint32_t m : tree.members) host_load[m] += tfi;
    const uint32_t height = meter.height(tree);
    figures.max_height = std::max(figures.max_height, height);
    heights += uint64_t{height} * tfi;
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
  figures.colors = static_cast<uint32_t>(std::count(colors.begin(), colors.end(), true));
  figures.mean_efi = cables ? double(sum) / cables : 0;
  figures.mean_tfi = trees.empty() ? 0 : double(groups) / trees.size();
  figures.mean_height = groups ? double(heights) / groups : 0;
  return figures;
}

}  // namespace weft::mcast
