// Taking load off the busiest cables after many groups have been merged.
//
// A merged tree puts all of its groups on each of its cables, and where it goes was decided when
// the fabric was emptier. So, once all groups are there, the trees over the fabric's busiest cables
// are built again one after the other, at the entry that they have, of cables that stay below the
// present maximum; what a cable costs grows with the square of its load. Every success leaves fewer
// cables with the maximum, and no tree becomes higher than the highest was. It ends when one of
// these cables cannot be relieved, or when as many trees have been built as there are groups.
#include "mcast/routing/router_impl.hpp"

namespace weft::mcast {

// A tree of the same members and entry of cables with less than `limit` groups, itself included.
// The loads are those without the tree. False if there is none.
bool Router::Impl::build_below(uint32_t slot, uint32_t limit, Tree* tree) {
  const Tree& old = slots[slot];
  const uint64_t weight = old.groups.size();
  const std::vector<uint32_t> targets = member_switches(topology, old.members);
  tree->color = old.color;
  tree->members = old.members;
  tree->groups = old.groups;
  tree->root = targets[0];
  tree->switches.clear();
  tree->links.clear();
  std::vector<uint64_t>& cost = grow_cost;
  std::vector<uint32_t>& back = grow_back;
  cost.assign(topology.num_switches(), UINT64_MAX);
  back.resize(topology.num_switches());
  std::vector<uint8_t> in(topology.num_switches()), wanted(topology.num_switches());
  for (const uint32_t t : targets) wanted[t] = 1;
  size_t missing = targets.size();
  using Item = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  const auto include = [&](uint32_t s) {
    tree->switches.push_back(s);
    in[s] = 1;
    missing -= wanted[s];
    wanted[s] = 0;
    cost[s] = 0;
    queue.push({0, s});
  };
  include(targets[0]);
  while (missing > 0 && !queue.empty()) {
    const auto [d, at] = queue.top();
    queue.pop();
    if (d != cost[at]) continue;
    if (wanted[at]) {
      for (uint32_t s = at; !in[s]; s = topology.arcs[back[s]].to) {
        tree->links.push_back(back[s]);
        include(s);
      }
      continue;
    }
    for (uint32_t a = topology.arc_begin[at]; a < topology.arc_begin[at + 1]; ++a) {
      const uint32_t to = topology.arcs[a].to;
      if (in[to]) continue;
      const uint64_t l = load[cable_of(topology, a)];
      if (l + weight >= limit) continue;
      const uint64_t next = d + limit + 2 * l + weight;
      if (next >= cost[to]) continue;
      const uint32_t o = owner_at(to, old.color);
      if (o != kNone && o != slot) continue;
      cost[to] = next;
      back[to] = topology.arcs[a].reverse;
      queue.push({next, to});
    }
  }
  return missing == 0;
}

// True if the tree has been moved off the cables that have `most` groups.
bool Router::Impl::move_below(uint32_t slot, uint32_t most, uint32_t highest_tree,
                              HeightMeter* meter) {
  Tree tree;
  const auto weigh = [&](uint32_t sign) {
    const uint32_t weight = sign * static_cast<uint32_t>(slots[slot].groups.size());
    for (const uint32_t link : slots[slot].links) load[cable_of(topology, link)] += weight;
  };
  weigh(UINT32_MAX);
  const bool found = build_below(slot, most, &tree);
  weigh(1);
  if (!found) return false;
  meter->centre(&tree);
  if (meter->height(tree) > highest_tree) return false;
  take(slot);
  slots[slot] = std::move(tree);
  put(slot);
  return true;
}

void Router::Impl::spread(const std::function<void(size_t built, size_t most)>& progress) {
  if (load.empty()) return;
  const size_t most_trees = routed.size();
  HeightMeter meter(topology);
  uint32_t highest_tree = 0;
  size_t built = 0;
  for (const Tree& tree : slots) {
    if (tree.color != kNone) highest_tree = std::max(highest_tree, meter.height(tree));
  }
  while (built < most_trees) {
    const uint32_t most = *std::max_element(load.begin(), load.end());
    for (uint32_t a = 0; a < load.size(); ++a) {
      if (load[a] < most) continue;
      const uint32_t ends[] = {topology.arc_from[a], topology.arcs[a].to};
      std::vector<std::pair<uint32_t, uint32_t>> over;  // groups, slot
      for (uint32_t color = 0; color < owner[ends[0]].size(); ++color) {
        const uint32_t slot = owner[ends[0]][color];
        if (slot == kNone || owner_at(ends[1], color) != slot) continue;
        const Tree& tree = slots[slot];
        if (std::any_of(tree.links.begin(), tree.links.end(),
                        [&](uint32_t link) { return cable_of(topology, link) == a; })) {
          over.push_back({static_cast<uint32_t>(tree.groups.size()), slot});
        }
      }
      std::sort(over.begin(), over.end());
      bool moved = false;
      for (size_t i = over.size(); i-- > 0 && !moved && built < most_trees;) {
        if (progress) progress(built, most_trees);
        ++built;
        moved = move_below(over[i].second, most, highest_tree, &meter);
      }
      if (!moved) {
        highest = most;
        return;
      }
    }
  }
  highest = *std::max_element(load.begin(), load.end());
}

}  // namespace weft::mcast
