// Trees that several groups share.
#include "mcast/routing/router_impl.hpp"

namespace weft::mcast {

namespace {
constexpr uint32_t kColorsTried = 6;   // those of least estimated cost, when a group is merged
constexpr uint64_t kHop = 1ull << 24;  // outweighs any load
}  // namespace

// The tree nearest to the group by formula 1: the mean, over the members of both, of the distance
// to the nearest of the other. The half that a search from the group gives bounds the whole, so
// few trees need the other half.
uint32_t Router::Impl::nearest_tree(const std::vector<uint32_t>& members) {
  const uint32_t n = topology.num_switches();
  std::vector<uint8_t> near(n, Hops::kFar);
  const std::vector<uint32_t> targets = member_switches(topology, members);
  for (const uint32_t t : targets) {
    const uint8_t* row = hops.row(t);
    for (uint32_t s = 0; s < n; ++s) near[s] = std::min(near[s], row[s]);
  }
  std::vector<std::pair<double, uint32_t>> bounds;
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    const Tree& tree = slots[slot];
    if (tree.color == kNone || near[tree.root] == Hops::kFar) continue;
    uint64_t sum = 0;
    for (const uint32_t m : tree.members) sum += near[topology.endpoints[m].on_switch];
    bounds.push_back({double(sum) / (tree.members.size() + members.size()), slot});
  }
  std::sort(bounds.begin(), bounds.end());
  double best = 1e300;
  uint32_t chosen = kNone;
  for (const auto& [bound, slot] : bounds) {
    if (bound >= best) break;
    const Tree& tree = slots[slot];
    const std::vector<uint32_t> theirs = member_switches(topology, tree.members);
    uint64_t sum = 0;
    for (const uint32_t m : members) {
      const uint8_t* row = hops.row(topology.endpoints[m].on_switch);
      uint8_t least = Hops::kFar;
      for (const uint32_t s : theirs) least = std::min(least, row[s]);
      sum += least;
    }
    const double whole = bound + double(sum) / (tree.members.size() + members.size());
    if (whole < best) best = whole, chosen = slot;
  }
  return chosen;
}

// The group joins a tree that has its members already.
uint32_t Router::Impl::join(uint32_t number, uint32_t slot) {
  const Tree& tree = slots[slot];
  for (const uint32_t link : tree.links) {
    highest = std::max(highest, ++load[cable_of(topology, link)]);
  }
  slots[slot].groups.push_back(number);
  return slot;
}

// Merges the group into existing trees; the result is put, its slot returned.
uint32_t Router::Impl::merge(uint32_t number, const std::vector<uint32_t>& members) {
  Tree tree;
  std::vector<uint32_t> merged;
  if (options.as_paper) {
    if (!merge_nearest(number, members, &tree, &merged)) return kNone;
  } else {
    merge_cheapest(number, members, &tree, &merged);
  }
  for (const uint32_t slot : merged) take(slot);
  const uint32_t slot = merged.empty() ? free_slot() : merged[0];
  for (size_t i = 1; i < merged.size(); ++i) {
    slots[merged[i]] = Tree();
    unused.push_back(merged[i]);
  }
  slots[slot] = std::move(tree);
  put(slot);
  for (const uint32_t g : slots[slot].groups) {
    if (g != number) routed[g].first = slot;
  }
  return slot;
}

// Members and groups of the tree that takes the place of the merged ones.
void Router::Impl::unite(uint32_t number, const std::vector<uint32_t>& members,
                         const std::vector<uint32_t>& merged, Tree* tree) const {
  tree->members = members;
  tree->groups.assign(1, number);
  for (const uint32_t slot : merged) {
    const Tree& old = slots[slot];
    tree->members.insert(tree->members.end(), old.members.begin(), old.members.end());
    tree->groups.insert(tree->groups.end(), old.groups.begin(), old.groups.end());
  }
  std::sort(tree->members.begin(), tree->members.end());
  tree->members.erase(std::unique(tree->members.begin(), tree->members.end()), tree->members.end());
}

// The switch that is nearest to the farthest of the targets, on paths that `allowed` admits; of
// several that on fewest trees.
uint32_t Router::Impl::centre_among(const std::vector<uint32_t>& targets,
                                    const std::function<bool(uint32_t)>& allowed) {
  const uint32_t n = topology.num_switches();
  std::vector<uint32_t> worst(n), seen(n, kNone), number_of(n);
  for (uint32_t i = 0; i < targets.size(); ++i) {
    frontier.assign(1, targets[i]);
    seen[targets[i]] = i;
    ++number_of[targets[i]];
    for (uint32_t hop = 1; !frontier.empty(); ++hop) {
      next_frontier.clear();
      for (const uint32_t s : frontier) {
        for (uint32_t a = topology.arc_begin[s]; a < topology.arc_begin[s + 1]; ++a) {
          const uint32_t to = topology.arcs[a].to;
          if (seen[to] == i || !allowed(to)) continue;
          seen[to] = i;
          ++number_of[to];
          worst[to] = hop > worst[to] ? hop : worst[to];
          next_frontier.push_back(to);
        }
      }
      std::swap(frontier, next_frontier);
    }
  }
  uint32_t centre = targets[0];
  for (uint32_t s = 0; s < n; ++s) {
    if (number_of[s] != targets.size() || worst[s] > worst[centre]) continue;
    if (worst[s] < worst[centre] || switch_load[s] < switch_load[centre]) centre = s;
  }
  return centre;
}

// Dijkstra's tree from the root, in which an old tree that is reached belongs to the new one as a
// whole (algorithm 5).
void Router::Impl::grow_from(uint32_t root, const std::vector<uint32_t>& targets,
                             const std::vector<uint32_t>& merged, Tree* tree) {
  const uint32_t n = topology.num_switches();
  std::vector<uint32_t> of_tree(n, kNone);
  std::vector<std::vector<uint32_t>> old_arcs(n);  // of the old trees, from each switch
  for (const uint32_t slot : merged) {
    for (const uint32_t s : slots[slot].switches) of_tree[s] = slot;
    for (const uint32_t link : slots[slot].links) {
      old_arcs[topology.arc_from[link]].push_back(link);
      old_arcs[topology.arcs[link].to].push_back(topology.arcs[link].reverse);
    }
  }
  grow_cost.assign(n, UINT64_MAX);
  grow_back.assign(n, kNone);
  std::vector<bool> is_done(n);
  using Item = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  grow_cost[root] = 0;
  queue.push({0, root});
  std::vector<uint32_t> whole;
  while (!queue.empty()) {
    const auto [d, at] = queue.top();
    queue.pop();
    if (is_done[at]) continue;
    is_done[at] = true;
    whole.assign(1, at);
    for (size_t i = 0; i < whole.size(); ++i) {
      for (const uint32_t arc : old_arcs[whole[i]]) {
        const uint32_t to = topology.arcs[arc].to;
        if (is_done[to]) continue;
        is_done[to] = true;
        grow_back[to] = topology.arcs[arc].reverse;
        whole.push_back(to);
      }
    }
    for (const uint32_t s : whole) {
      for (uint32_t a = topology.arc_begin[s]; a < topology.arc_begin[s + 1]; ++a) {
        const uint32_t to = topology.arcs[a].to;
        if (is_done[to] || (of_tree[to] == kNone && owner_at(to, tree->color) != kNone)) continue;
        const uint64_t next = d + (1ull << 40) + load[cable_of(topology, a)];
        if (next >= grow_cost[to]) continue;
        grow_cost[to] = next;
        grow_back[to] = topology.arcs[a].reverse;
        queue.push({next, to});
      }
    }
  }
  walk_back(targets, root, grow_back, tree);
}

// Merging as in the paper (algorithm 4).
bool Router::Impl::merge_nearest(uint32_t number, const std::vector<uint32_t>& members, Tree* tree,
                                 std::vector<uint32_t>* merged) {
  const uint32_t first = nearest_tree(members);
  if (first == kNone) return false;
  const uint32_t color = slots[first].color;
  merged->assign(1, first);
  const auto allowed = [&](uint32_t s) {
    const uint32_t o = owner_at(s, color);
    return o == kNone || std::find(merged->begin(), merged->end(), o) != merged->end();
  };
  std::vector<uint64_t> distance;
  std::vector<uint32_t> back;
  const std::vector<uint32_t> targets = member_switches(topology, members);
  search(slots[first].switches, kNone, allowed, &distance, &back);
  if (!std::all_of(targets.begin(), targets.end(),
                   [&](uint32_t t) { return distance[t] != UINT64_MAX; })) {
    // Pessimistic: every tree of this colour along an undisturbed tree joins.
    std::vector<uint32_t> all = slots[first].members;
    all.insert(all.end(), members.begin(), members.end());
    all = member_switches(topology, all);
    std::vector<uint8_t> worst;
    eccentricities(topology, hops, all, &worst);
    const auto root =
        static_cast<uint32_t>(std::min_element(worst.begin(), worst.end()) - worst.begin());
    Tree wish;
    builder.bottom_up(hops.row(root), root, all, load, &wish);
    for (const uint32_t s : wish.switches) {
      if (!allowed(s)) merged->push_back(owner_at(s, color));
    }
  }
  tree->color = color;
  unite(number, members, *merged, tree);
  const std::vector<uint32_t> all = member_switches(topology, tree->members);
  const uint32_t root = centre_among(all, allowed);
  if (options.keep_old_trees) {
    grow_from(root, all, *merged, tree);
  } else {
    search({root}, kNone, allowed, &distance, &back);
    walk_back(all, root, back, tree);
  }
  prune(tree);
  return true;
}

// The cost of the merge, with the trees that it replaces taken away first. The busiest
// cable counts only where it is busier than any before.
Router::Impl::Price Router::Impl::price_of_merge(const Tree& tree,
                                                 const std::vector<uint32_t>& merged) {
  const uint64_t weight = tree.groups.size();
  uint64_t sum = 1ull << 62, busiest = highest;
  for (const uint32_t slot : merged) {
    for (const uint32_t link : slots[slot].links) {
      uint32_t& l = load[cable_of(topology, link)];
      const uint64_t before = l;
      l -= static_cast<uint32_t>(slots[slot].groups.size());
      sum -= before * before - uint64_t{l} * l;
    }
  }
  for (const uint32_t link : tree.links) {
    const uint64_t l = load[cable_of(topology, link)];
    busiest = std::max(busiest, l + weight);
    sum += (l + weight) * (l + weight) - l * l;
  }
  for (const uint32_t slot : merged) {
    for (const uint32_t link : slots[slot].links) {
      load[cable_of(topology, link)] += static_cast<uint32_t>(slots[slot].groups.size());
    }
  }
  return {static_cast<uint32_t>(busiest), sum};
}

// With a colour, the group must join all trees of it at the members' switches. The colours with the
// lowest estimated cost are tried.
void Router::Impl::merge_cheapest(uint32_t number, const std::vector<uint32_t>& members, Tree* tree,
                                  std::vector<uint32_t>* merged) {
  const std::vector<uint32_t> targets = member_switches(topology, members);
  std::vector<std::pair<uint64_t, uint32_t>> looks;
  slot_stamp.resize(slots.size());
  std::vector<uint32_t> owners;
  for (uint32_t color = 0; color < options.colors; ++color) {
    ++slot_stamp_now;
    uint64_t groups = 1, links = 0, parts = 0, apart = 0;
    for (const uint32_t t : targets) {
      const uint32_t o = owner_at(t, color);
      if (o == kNone) {
        ++parts;
      } else if (slot_stamp[o] != slot_stamp_now) {
        slot_stamp[o] = slot_stamp_now;
        ++parts;
        groups += slots[o].groups.size();
        links += slots[o].links.size();
        apart += slots[o].groups.size() * slots[o].links.size();
      }
    }
    // Groups times cables, with a guess of two cables to link each part to the others.
    looks.push_back({groups * (links + 2 * (parts - 1)) - apart, color});
  }
  const size_t tries = std::min<size_t>(kColorsTried, looks.size());
  std::partial_sort(looks.begin(), looks.begin() + static_cast<ptrdiff_t>(tries), looks.end());
  Price best;
  for (size_t i = 0; i < tries; ++i) {
    Tree candidate;
    candidate.color = looks[i].second;
    owners.clear();
    for (const uint32_t t : targets) {
      const uint32_t o = owner_at(t, candidate.color);
      if (o != kNone && std::find(owners.begin(), owners.end(), o) == owners.end()) {
        owners.push_back(o);
      }
    }
    grow(targets, &candidate, &owners);
    unite(number, members, owners, &candidate);
    if (!options.keep_old_trees) rebuild(owners, &candidate);
    const Price its = price_of_merge(candidate, owners);
    if (i > 0 && its >= best) continue;
    best = its;
    *tree = std::move(candidate);
    *merged = owners;
  }
}

// Links the merged trees and the targets into one tree that keeps every cable of the old ones: from
// what there is so far, always to the nearest part that is missing. A path may cross other trees of
// the colour; those are adopted whole, so that no circle can form, and put on the list. To cross
// one costs as much as it has switches, for its groups come along.
void Router::Impl::grow(const std::vector<uint32_t>& targets, Tree* tree,
                        std::vector<uint32_t>* merged) {
  const uint32_t n = topology.num_switches();
  std::vector<uint64_t>& cost = grow_cost;
  std::vector<uint32_t>& back = grow_back;
  cost.assign(n, UINT64_MAX);
  back.resize(n);
  std::vector<uint8_t> in(n), wanted(n);
  size_t missing = 0;
  const auto want = [&](uint32_t s) {
    if (!wanted[s]) ++missing;
    wanted[s] = 1;
  };
  using Item = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  const auto include = [&](uint32_t s) {
    tree->switches.push_back(s);
    in[s] = 1;
    if (wanted[s]) --missing;
    wanted[s] = 0;
    cost[s] = 0;
    queue.push({0, s});
  };
  std::vector<uint32_t> expected = *merged;
  const auto adopt = [&](uint32_t slot) {
    for (const uint32_t s : slots[slot].switches) include(s);
    tree->links.insert(tree->links.end(), slots[slot].links.begin(), slots[slot].links.end());
    if (std::find(merged->begin(), merged->end(), slot) == merged->end()) merged->push_back(slot);
  };
  for (const uint32_t t : targets) want(t);
  for (size_t i = 1; i < merged->size(); ++i) want(slots[(*merged)[i]].root);
  if (merged->empty()) {
    tree->root = targets[0];
    include(targets[0]);
  } else {
    tree->root = slots[(*merged)[0]].root;
    adopt((*merged)[0]);
  }
  while (missing > 0 && !queue.empty()) {
    const auto [d, at] = queue.top();
    queue.pop();
    if (d != cost[at]) continue;
    if (wanted[at]) {
      std::vector<uint32_t> path;
      for (uint32_t s = at; !in[s]; s = topology.arcs[back[s]].to) path.push_back(s);
      for (size_t i = path.size(); i-- > 0;) {
        const uint32_t s = path[i];
        tree->links.push_back(back[s]);
        const uint32_t o = owner_at(s, tree->color);
        if (o != kNone) {
          adopt(o);
          break;  // search again, from the larger tree
        }
        include(s);
      }
      if (wanted[at]) queue.push({cost[at], at});
      continue;
    }
    const uint32_t mine = owner_at(at, tree->color);
    for (uint32_t a = topology.arc_begin[at]; a < topology.arc_begin[at + 1]; ++a) {
      const uint32_t to = topology.arcs[a].to;
      if (in[to]) continue;
      uint64_t next = d + kHop + load[cable_of(topology, a)];
      const uint32_t o = owner_at(to, tree->color);
      if (o != kNone && o != mine &&
          std::find(expected.begin(), expected.end(), o) == expected.end()) {
        next += kHop * slots[o].switches.size();
      }
      if (next >= cost[to]) continue;
      cost[to] = next;
      back[to] = topology.arcs[a].reverse;
      queue.push({next, to});
    }
  }
}

// A new tree from the most central switch among those allowed.
void Router::Impl::rebuild(const std::vector<uint32_t>& merged, Tree* tree) {
  const auto allowed = [&](uint32_t s) {
    const uint32_t o = owner_at(s, tree->color);
    return o == kNone || std::find(merged.begin(), merged.end(), o) != merged.end();
  };
  const std::vector<uint32_t> targets = member_switches(topology, tree->members);
  std::vector<uint8_t> worst;
  eccentricities(topology, hops, targets, &worst);
  std::vector<uint64_t> distance;
  std::vector<uint32_t> back;
  // The switches that the members can reach under this colour; only those may be roots.
  search({targets[0]}, kNone, allowed, &distance, &back);
  uint32_t root = targets[0];
  for (uint32_t s = 0; s < worst.size(); ++s) {
    if (distance[s] != UINT64_MAX && worst[s] < worst[root]) root = s;
  }
  search({root}, kNone, allowed, &distance, &back);
  walk_back(targets, root, back, tree);
}

}  // namespace weft::mcast
