// MR4LMS (Chen, He, Li, Qi: multicast routing for limited MFT size).
//
// A colour is a table entry: trees that share no switch may share a colour. A new group gets the
// tree of least height and a colour free on all of its switches (first build, then colour). Once
// that fails, colours are tried one by one and a tree of the same height is sought among the
// switches where the colour is free (first colour, then build), until that has worked 20 times in a
// row. When no colour does, the group joins the nearest tree, and trees in the way join too.
//
// Two things differ from the paper. Where it takes the least loaded root, we build the trees of a
// few roots and keep the one whose busiest cable is least busy: the greedy choice made the torus
// worse with more colours. And a group for which build-then-colour fails tries colour-then-build
// before it is merged, which can only save merges.
#include <algorithm>
#include <map>
#include <queue>

#include "routing/hops.hpp"
#include "routing/tree_building.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {
constexpr uint32_t kSuccessesToGoBack = 20;
// Roots tried per group when colours run short; more would seldom find what these do not.
constexpr uint32_t kRootsTried = 32;
constexpr uint32_t kRootsTriedPerColor = 4;
}  // namespace

struct Router::Impl {
  Impl(const Topology& t, RouterOptions o)
      : topology(t),
        options(o),
        hops(t),
        builder(t),
        owner(t.num_switches()),
        busy(t.num_switches()),
        load(t.arcs.size()),
        switch_load(t.num_switches()),
        color_groups() {}

  const Topology& topology;
  RouterOptions options;
  Hops hops;
  TreeBuilder builder;
  std::vector<std::vector<uint32_t>> owner;  // [switch][colour]: the tree there, kNone if free
  std::vector<std::vector<uint64_t>> busy;   // the same as bits, for finding free colours
  std::vector<uint32_t> load;                // groups on each cable
  std::vector<uint32_t> switch_load;         // trees on each switch
  std::vector<uint32_t> color_groups;        // groups on each colour
  std::vector<Tree> slots;                   // color kNone: an unused slot
  std::map<uint32_t, std::pair<uint32_t, std::vector<uint32_t>>> routed;  // number: slot, members
  std::vector<uint64_t> changes;
  bool color_first = false;
  uint32_t successes = 0;

  uint32_t owner_at(uint32_t s, uint32_t color) const {
    return color < owner[s].size() ? owner[s][color] : kNone;
  }

  void put(uint32_t slot) {
    const Tree& tree = slots[slot];
    const uint32_t weight = static_cast<uint32_t>(tree.groups.size());
    for (const uint32_t link : tree.links) load[cable_of(topology, link)] += weight;
    for (const uint32_t s : tree.switches) {
      if (owner[s].size() <= tree.color) owner[s].resize(tree.color + 1, kNone);
      if (busy[s].size() <= tree.color / 64) busy[s].resize(tree.color / 64 + 1);
      owner[s][tree.color] = slot;
      busy[s][tree.color / 64] |= 1ull << tree.color % 64;
      ++switch_load[s];
      changes.push_back(uint64_t{s} << 32 | tree.color);
    }
    if (color_groups.size() <= tree.color) color_groups.resize(tree.color + 1);
    color_groups[tree.color] += weight;
  }

  void take(uint32_t slot) {
    const Tree& tree = slots[slot];
    const uint32_t weight = static_cast<uint32_t>(tree.groups.size());
    for (const uint32_t link : tree.links) load[cable_of(topology, link)] -= weight;
    for (const uint32_t s : tree.switches) {
      owner[s][tree.color] = kNone;
      busy[s][tree.color / 64] &= ~(1ull << tree.color % 64);
      --switch_load[s];
      changes.push_back(uint64_t{s} << 32 | tree.color);
    }
    color_groups[tree.color] -= weight;
  }

  uint32_t free_slot() {
    for (uint32_t i = static_cast<uint32_t>(slots.size()); i-- > 0;) {
      if (slots[i].color == kNone) return i;
      if (slots.size() - i > 8) break;  // holes further down are not worth the search
    }
    slots.emplace_back();
    return static_cast<uint32_t>(slots.size()) - 1;
  }

  // Bits of the colours that are taken on at least one of the switches.
  void taken_colors(const std::vector<uint32_t>& switches, std::vector<uint64_t>* bits) const {
    bits->clear();
    for (const uint32_t s : switches) {
      if (busy[s].size() > bits->size()) bits->resize(busy[s].size());
      for (size_t w = 0; w < busy[s].size(); ++w) (*bits)[w] |= busy[s][w];
    }
  }

  uint32_t first_free(const std::vector<uint64_t>& bits) const {
    uint32_t color = static_cast<uint32_t>(bits.size()) * 64;
    for (size_t w = 0; w < bits.size(); ++w) {
      if (~bits[w] == 0) continue;
      color = static_cast<uint32_t>(w * 64 + __builtin_ctzll(~bits[w]));
      break;
    }
    return color < options.colors ? color : kNone;
  }

  // The switches nearest to all targets, the least loaded first; at most `most`.
  std::vector<uint32_t> roots(const std::vector<uint8_t>& worst, uint32_t most) const {
    const uint8_t least = *std::min_element(worst.begin(), worst.end());
    std::vector<uint32_t> found;
    for (uint32_t s = 0; s < worst.size(); ++s) {
      if (worst[s] == least && switch_load[s] < options.colors) found.push_back(s);
    }
    const auto lighter = [&](uint32_t a, uint32_t b) {
      return switch_load[a] != switch_load[b] ? switch_load[a] < switch_load[b] : a < b;
    };
    const size_t keep = std::min<size_t>(most, found.size());
    std::partial_sort(found.begin(), found.begin() + keep, found.end(), lighter);
    found.resize(keep);
    return found;
  }

  // What a tree does to the fabric: its busiest cable first, then its cables' loads together.
  std::pair<uint32_t, uint64_t> price(const Tree& tree) const {
    uint32_t busiest = 0;
    uint64_t sum = 0;
    for (const uint32_t link : tree.links) {
      const uint32_t l = load[cable_of(topology, link)] + 1;
      busiest = std::max(busiest, l);
      sum += uint64_t{l} * l;
    }
    return {busiest, sum};
  }

  bool build_then_color(const std::vector<uint32_t>& targets, const std::vector<uint8_t>& worst,
                        Tree* tree) {
    std::vector<uint64_t> bits;
    taken_colors(targets, &bits);
    if (first_free(bits) == kNone) return false;  // no root can help
    bool found = false;
    uint32_t tried = 0;
    for (const uint32_t root : roots(worst, std::max(kRootsTried, options.refine_roots))) {
      if (found && tried >= options.refine_roots) break;
      ++tried;
      Tree candidate;
      builder.bottom_up(hops, root, targets, load, &candidate);
      taken_colors(candidate.switches, &bits);
      candidate.color = first_free(bits);
      if (candidate.color == kNone) continue;
      if (found && price(candidate) >= price(*tree)) continue;
      *tree = std::move(candidate);
      found = true;
    }
    return found;
  }

  // Shortest paths by hops, then by load, from `from` among the switches that `allowed` admits;
  // `arc_back[s]` leads from s towards the start. No path is longer than `limit` hops.
  template <typename Allowed>
  void search(const std::vector<uint32_t>& from, uint32_t limit, const Allowed& allowed,
              std::vector<uint64_t>* distance, std::vector<uint32_t>* arc_back) const {
    distance->assign(topology.num_switches(), UINT64_MAX);
    arc_back->assign(topology.num_switches(), kNone);
    using Item = std::pair<uint64_t, uint32_t>;
    std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
    for (const uint32_t s : from) {
      (*distance)[s] = 0;
      queue.push({0, s});
    }
    while (!queue.empty()) {
      const auto [d, s] = queue.top();
      queue.pop();
      if (d != (*distance)[s] || d >> 40 >= limit) continue;
      for (uint32_t a = topology.arc_begin[s]; a < topology.arc_begin[s + 1]; ++a) {
        const uint32_t to = topology.arcs[a].to;
        if (!allowed(to)) continue;
        const uint64_t next = d + (1ull << 40) + load[cable_of(topology, a)];
        if (next >= (*distance)[to]) continue;
        (*distance)[to] = next;
        (*arc_back)[to] = topology.arcs[a].reverse;
        queue.push({next, to});
      }
    }
  }

  void walk_back(const std::vector<uint32_t>& targets, uint32_t root,
                 const std::vector<uint32_t>& arc_back, Tree* tree) const {
    std::vector<bool> seen(topology.num_switches());
    tree->root = root;
    tree->switches.assign(1, root);
    tree->links.clear();
    seen[root] = true;
    for (uint32_t at : targets) {
      while (!seen[at]) {
        seen[at] = true;
        tree->switches.push_back(at);
        tree->links.push_back(arc_back[at]);
        at = topology.arcs[arc_back[at]].to;
      }
    }
  }

  bool color_then_build(const std::vector<uint32_t>& targets, const std::vector<uint8_t>& worst,
                        Tree* tree) {
    std::vector<uint64_t> bits, distance;
    std::vector<uint32_t> back;
    taken_colors(targets, &bits);
    const std::vector<uint32_t> candidates = roots(worst, kRootsTried);
    for (;;) {
      const uint32_t color = first_free(bits);
      if (color == kNone) return false;
      if (bits.size() <= color / 64) bits.resize(color / 64 + 1);
      bits[color / 64] |= 1ull << color % 64;  // not again
      const auto allowed = [&](uint32_t s) { return owner_at(s, color) == kNone; };
      uint32_t tried = 0;
      for (const uint32_t root : candidates) {
        if (!allowed(root)) continue;
        if (++tried > kRootsTriedPerColor) break;
        search({root}, worst[root], allowed, &distance, &back);
        const bool all = std::all_of(targets.begin(), targets.end(),
                                     [&](uint32_t t) { return distance[t] != UINT64_MAX; });
        if (!all) continue;
        walk_back(targets, root, back, tree);
        tree->color = color;
        return true;
      }
    }
  }

  // The tree nearest to the group by formula 1: the mean, over the members of both, of the distance
  // to the nearest of the other. The half that a search from the group gives bounds the whole, so
  // few trees need the other half.
  uint32_t nearest_tree(const std::vector<uint32_t>& members) {
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

  // Merges the group into existing trees; the result is put, its slot returned.
  uint32_t merge(uint32_t number, const std::vector<uint32_t>& members) {
    const uint32_t first = nearest_tree(members);
    if (first == kNone) return kNone;
    const uint32_t color = slots[first].color;
    std::vector<uint32_t> merged{first};
    const auto allowed = [&](uint32_t s) {
      const uint32_t o = owner_at(s, color);
      return o == kNone || std::find(merged.begin(), merged.end(), o) != merged.end();
    };
    std::vector<uint64_t> distance;
    std::vector<uint32_t> back;
    const std::vector<uint32_t> targets = member_switches(topology, members);
    search(slots[first].switches, kNone, allowed, &distance, &back);
    if (!std::all_of(targets.begin(), targets.end(),
                     [&](uint32_t t) { return distance[t] != UINT64_MAX; })) {
      // Pessimistic: whatever has this colour along an undisturbed tree joins.
      std::vector<uint32_t> all = slots[first].members;
      all.insert(all.end(), members.begin(), members.end());
      all = member_switches(topology, all);
      Tree wish;
      builder.bottom_up(hops, slots[first].root, all, load, &wish);
      for (const uint32_t s : wish.switches) {
        if (!allowed(s)) merged.push_back(owner_at(s, color));
      }
    }
    Tree tree;
    tree.color = color;
    tree.members = members;
    tree.groups.push_back(number);
    for (const uint32_t slot : merged) {
      const Tree& old = slots[slot];
      tree.members.insert(tree.members.end(), old.members.begin(), old.members.end());
      tree.groups.insert(tree.groups.end(), old.groups.begin(), old.groups.end());
    }
    std::sort(tree.members.begin(), tree.members.end());
    tree.members.erase(std::unique(tree.members.begin(), tree.members.end()), tree.members.end());
    if (options.keep_old_trees) {
      grow(merged, targets, allowed, &tree);
    } else {
      rebuild(allowed, &tree);
    }
    for (const uint32_t slot : merged) take(slot);
    for (size_t i = 1; i < merged.size(); ++i) slots[merged[i]] = Tree();
    slots[first] = std::move(tree);
    put(first);
    for (const uint32_t g : slots[first].groups) {
      if (g != number) routed[g].first = first;
    }
    return first;
  }

  // Keeps every cable of the old trees and links the rest to the first of them, nearest first.
  template <typename Allowed>
  void grow(const std::vector<uint32_t>& merged, const std::vector<uint32_t>& targets,
            const Allowed& allowed, Tree* tree) const {
    std::vector<uint64_t> distance;
    std::vector<uint32_t> back, missing = targets;
    std::vector<bool> in(topology.num_switches());
    const auto adopt = [&](const Tree& old) {
      for (const uint32_t s : old.switches) {
        tree->switches.push_back(s);
        in[s] = true;
      }
      tree->links.insert(tree->links.end(), old.links.begin(), old.links.end());
    };
    for (size_t i = 1; i < merged.size(); ++i) missing.push_back(slots[merged[i]].root);
    tree->root = slots[merged[0]].root;
    adopt(slots[merged[0]]);
    for (;;) {
      std::erase_if(missing, [&](uint32_t s) { return in[s]; });
      if (missing.empty()) return;
      search(tree->switches, kNone, allowed, &distance, &back);
      uint32_t at = *std::min_element(missing.begin(), missing.end(), [&](uint32_t a, uint32_t b) {
        return distance[a] < distance[b];
      });
      // The path may cross other old trees; only its part up to the first of them is taken, and
      // that tree adopted whole, so that no circle can form.
      std::vector<uint32_t> path;
      for (; !in[at]; at = topology.arcs[back[at]].to) path.push_back(at);
      for (size_t i = path.size(); i-- > 0;) {
        const uint32_t s = path[i];
        tree->links.push_back(back[s]);
        const uint32_t o = owner_at(s, tree->color);
        if (o != kNone) {
          adopt(slots[o]);
          break;
        }
        tree->switches.push_back(s);
        in[s] = true;
      }
    }
  }

  // A new tree from the most central switch among those allowed.
  template <typename Allowed>
  void rebuild(const Allowed& allowed, Tree* tree) {
    const std::vector<uint32_t> targets = member_switches(topology, tree->members);
    std::vector<uint8_t> worst;
    eccentricities(topology, hops, targets, &worst);
    std::vector<uint64_t> distance;
    std::vector<uint32_t> back;
    // What the members can reach under this colour; only those may be roots.
    search({targets[0]}, kNone, allowed, &distance, &back);
    uint32_t root = targets[0];
    for (uint32_t s = 0; s < worst.size(); ++s) {
      if (distance[s] != UINT64_MAX && worst[s] < worst[root]) root = s;
    }
    search({root}, kNone, allowed, &distance, &back);
    walk_back(targets, root, back, tree);
  }

  Status add(uint32_t number, const Group& group) {
    if (options.colors == 0) return {Code::bad_argument, "a table of 0 entries holds no tree"};
    if (routed.count(number))
      return {Code::bad_argument, "group " + group.id + " is routed already"};
    std::vector<uint32_t> members = group.members;
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    if (members.size() < 2 || members.back() >= topology.endpoints.size()) {
      return {Code::bad_argument, "group " + group.id + " needs two members of the fabric"};
    }
    hops.prepare();
    const std::vector<uint32_t> targets = member_switches(topology, members);
    std::vector<uint8_t> worst;
    eccentricities(topology, hops, targets, &worst);
    if (worst[targets[0]] == Hops::kFar) {
      return {Code::not_found, "group " + group.id + ": its members cannot reach each other"};
    }
    Tree tree;
    bool done = false;
    if (!color_first) {
      done = build_then_color(targets, worst, &tree);
      if (!done) {
        color_first = true;
        successes = 0;
      }
    }
    if (color_first) {
      done = color_then_build(targets, worst, &tree);
      successes = done ? successes + 1 : 0;
      if (successes >= kSuccessesToGoBack) color_first = false;
    }
    uint32_t slot;
    if (done) {
      tree.members = members;
      tree.groups.assign(1, number);
      slot = free_slot();
      slots[slot] = std::move(tree);
      put(slot);
    } else {
      slot = merge(number, members);
      if (slot == kNone) return {Code::no_memory, "group " + group.id + ": no tree to join"};
    }
    routed[number] = {slot, std::move(members)};
    return Code::ok;
  }

  Status remove(uint32_t number) {
    const auto found = routed.find(number);
    if (found == routed.end()) return {Code::not_found, "no such group"};
    const uint32_t slot = found->second.first;
    routed.erase(found);
    take(slot);
    Tree& tree = slots[slot];
    std::erase(tree.groups, number);
    if (tree.groups.empty()) {
      tree = Tree();
      return Code::ok;
    }
    tree.members.clear();
    for (const uint32_t g : tree.groups) {
      const auto& m = routed[g].second;
      tree.members.insert(tree.members.end(), m.begin(), m.end());
    }
    std::sort(tree.members.begin(), tree.members.end());
    tree.members.erase(std::unique(tree.members.begin(), tree.members.end()), tree.members.end());
    prune(&tree);
    put(slot);
    return Code::ok;
  }

  // Cuts off branches that no member needs (algorithm 6), from the leaves inwards.
  void prune(Tree* tree) const {
    std::map<uint32_t, std::vector<uint32_t>> at;  // switch -> its cables in the tree
    for (const uint32_t link : tree->links) {
      at[topology.arc_from[link]].push_back(link);
      at[topology.arcs[link].to].push_back(link);
    }
    std::vector<uint32_t> needed = member_switches(topology, tree->members);
    std::sort(needed.begin(), needed.end());
    std::vector<uint32_t> queue = tree->switches;
    while (!queue.empty()) {
      const uint32_t s = queue.back();
      queue.pop_back();
      if (at[s].size() != 1 || std::binary_search(needed.begin(), needed.end(), s)) continue;
      const uint32_t link = at[s][0];
      const uint32_t other =
          topology.arc_from[link] == s ? topology.arcs[link].to : topology.arc_from[link];
      at[s].clear();
      std::erase(at[other], link);
      std::erase(tree->links, link);
      std::erase(tree->switches, s);
      if (tree->root == s) tree->root = other;
      queue.push_back(other);
    }
  }
};

Router::Router(const Topology& topology, RouterOptions options)
    : impl_(new Impl(topology, options)) {}
Router::~Router() { delete impl_; }

Status Router::add_group(uint32_t number, const Group& group) { return impl_->add(number, group); }
Status Router::remove_group(uint32_t number) { return impl_->remove(number); }

std::vector<Tree> Router::trees() const {
  std::vector<Tree> used;
  for (const Tree& tree : impl_->slots) {
    if (tree.color != kNone) used.push_back(tree);
  }
  return used;
}

std::vector<uint64_t> Router::take_changes() {
  std::vector<uint64_t> changes;
  changes.swap(impl_->changes);
  std::sort(changes.begin(), changes.end());
  changes.erase(std::unique(changes.begin(), changes.end()), changes.end());
  return changes;
}

}  // namespace weft::mcast
