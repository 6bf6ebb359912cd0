#pragma once
// The router's state and steps: router.cpp adds and removes groups, router_members.cpp their
// members, router_build.cpp makes trees
// for groups that get an entry of their own, router_merge.cpp those that share one,
// router_spread.cpp builds trees over the busiest cables again.
#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>

#include "mcast/routing/hops.hpp"
#include "mcast/routing/tree_building.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

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
        reach(t.num_switches()) {}

  // The cost of a tree to the fabric: its busiest cable first, then its cables' loads together.
  using Price = std::pair<uint32_t, uint64_t>;
  // Free entries of 256 colours, a bit each.
  struct Colors {
    uint64_t words[4] = {};
    bool any() const { return (words[0] | words[1] | words[2] | words[3]) != 0; }
  };

  const Topology& topology;
  RouterOptions options;
  Hops hops;
  TreeBuilder builder;
  std::vector<std::vector<uint32_t>> owner;  // [switch][colour]: the tree there, kNone if free
  std::vector<std::vector<uint64_t>> busy;   // the same as bits, for finding free colours
  std::vector<uint32_t> load;                // groups on each cable
  std::vector<uint32_t> switch_load;         // trees on each switch
  std::vector<Tree> slots;                   // color kNone: an unused slot
  std::vector<uint32_t> unused;              // those slots
  std::unordered_multimap<uint64_t, uint32_t> by_members;  // hash of members -> slot
  // number: slot, members; groups of less than two have no tree: kNone
  std::map<uint32_t, std::pair<uint32_t, std::vector<uint32_t>>> routed;
  std::vector<uint64_t> changes;
  bool color_first = false;
  bool ran_short = false;  // build-then-colour has failed once
  uint32_t successes = 0;
  uint32_t highest = 0;  // load of the busiest cable ever

  // Working memory of searches.
  struct Reach {
    Colors reached, now, next;
  };
  std::vector<Reach> reach;
  std::vector<uint32_t> frontier, next_frontier, touched;
  std::vector<uint64_t> grow_cost;
  std::vector<uint32_t> grow_back;
  std::vector<uint8_t> color_row;
  std::vector<uint32_t> slot_stamp;
  uint32_t slot_stamp_now = 0;

  // Bookkeeping (router.cpp).
  Status add(uint32_t number, const Group& group);
  Status remove(uint32_t number);
  void leave_tree(uint32_t slot, uint32_t number);
  void prune(Tree* tree) const;
  void put(uint32_t slot);
  void take(uint32_t slot);
  uint32_t free_slot();
  uint32_t owner_at(uint32_t s, uint32_t color) const {
    return color < owner[s].size() ? owner[s][color] : kNone;
  }

  std::vector<bool> keep(const Tables& tables,
                         const std::vector<Group>& groups);  // router_keep.cpp

  // Members that come and go (router_members.cpp).
  Status add_member(uint32_t number, uint32_t member);
  Status remove_member(uint32_t number, uint32_t member);
  bool extend(Tree* tree, uint32_t to) const;
  void replace(uint32_t slot, Tree&& next);

  // Trees with an entry of their own (router_build.cpp).
  void taken_colors(const std::vector<uint32_t>& switches, std::vector<uint64_t>* bits) const;
  uint32_t first_free(const std::vector<uint64_t>& bits) const;
  std::vector<uint32_t> roots(const std::vector<uint8_t>& worst, uint32_t most) const;
  Price price(const Tree& tree) const;
  bool build_then_color(const std::vector<uint32_t>& targets, const std::vector<uint8_t>& worst,
                        Tree* tree);
  bool color_then_build(const std::vector<uint32_t>& targets, const std::vector<uint8_t>& worst,
                        Tree* tree);
  bool colors_that_reach(uint32_t root, const std::vector<uint32_t>& targets, uint32_t first_word,
                         const Colors& wanted, uint32_t least, uint32_t most, uint32_t* height,
                         Colors* found);
  bool build_in_color(uint32_t root, const std::vector<uint32_t>& targets, uint32_t color,
                      Tree* tree);
  uint32_t same_members(const std::vector<uint32_t>& members) const;
  bool better_shared(const Tree& tree, uint32_t same) const;

  // Trees of several groups (router_merge.cpp).
  uint32_t nearest_tree(const std::vector<uint32_t>& members);
  uint32_t merge(uint32_t number, const std::vector<uint32_t>& members);
  uint32_t join(uint32_t number, uint32_t slot);
  bool merge_nearest(uint32_t number, const std::vector<uint32_t>& members, Tree* tree,
                     std::vector<uint32_t>* merged);
  void merge_cheapest(uint32_t number, const std::vector<uint32_t>& members, Tree* tree,
                      std::vector<uint32_t>* merged);
  void unite(uint32_t number, const std::vector<uint32_t>& members,
             const std::vector<uint32_t>& merged, Tree* tree) const;
  uint32_t centre_among(const std::vector<uint32_t>& targets,
                        const std::function<bool(uint32_t)>& allowed);
  void grow_from(uint32_t root, const std::vector<uint32_t>& targets,
                 const std::vector<uint32_t>& merged, Tree* tree);
  void grow(const std::vector<uint32_t>& targets, Tree* tree, std::vector<uint32_t>* merged);
  void rebuild(const std::vector<uint32_t>& merged, Tree* tree);
  Price price_of_merge(const Tree& tree, const std::vector<uint32_t>& merged);

  // Spreading load from the busiest cables (router_spread.cpp).
  void spread(const std::function<void(size_t built, size_t most)>& progress);
  bool move_below(uint32_t slot, uint32_t most, uint32_t highest_tree, HeightMeter* meter);
  bool build_below(uint32_t slot, uint32_t limit, Tree* tree);

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
};

uint64_t hash_of(const std::vector<uint32_t>& members);

}  // namespace weft::mcast
