// Trees that tables have already, for a fabric and groups that have changed since.
#include <algorithm>
#include <map>

#include "mcast/routing/router_impl.hpp"

namespace weft::mcast {

namespace {

// Reads the trees that the tables hold at an entry and that the fabric still carries: what is
// connected by cables that both ends name. One with a cable that is gone, or a circle, is none.
class KnownTrees {
 public:
  KnownTrees(const Topology& topology, const Tables& tables) : topology_(topology) {
    for (uint32_t a = 0; a < topology.arcs.size(); ++a) {
      arc_at_[{topology.arc_from[a], topology.arcs[a].port}] = a;
    }
    for (uint32_t m = 0; m < topology.endpoints.size(); ++m) {
      member_at_[{topology.endpoints[m].on_switch, topology.endpoints[m].switch_port}] = m;
    }
    for (uint32_t s = 0; s < topology.num_switches(); ++s) {
      const auto table = tables.find(topology.nodes[topology.switch_nodes[s]].guid);
      if (table == tables.end()) continue;
      for (const auto& [color, ports] : table->second) {
        if (!ports.empty()) entries_[color][s] = &ports;
      }
    }
  }

  std::vector<Tree> all() const {
    std::vector<Tree> trees;
    for (const auto& [color, entry] : entries_) {
      std::map<uint32_t, bool> seen;
      for (const auto& [start, ports] : entry) {
        if (seen[start]) continue;
        Tree tree;
        tree.color = color;
        tree.root = start;
        if (collect(entry, &seen, &tree)) trees.push_back(std::move(tree));
      }
    }
    return trees;
  }

 private:
  using Entry = std::map<uint32_t, const std::vector<uint16_t>*>;  // switch: its ports

  bool collect(const Entry& entry, std::map<uint32_t, bool>* seen, Tree* tree) const {
    bool is_whole = true;
    tree->switches.assign(1, tree->root);
    (*seen)[tree->root] = true;
    for (size_t i = 0; i < tree->switches.size(); ++i) {
      const uint32_t s = tree->switches[i];
      for (const uint16_t port : *entry.at(s)) {
        if (const auto member = member_at_.find({s, port}); member != member_at_.end()) {
          tree->members.push_back(member->second);
          continue;
        }
        const auto arc = arc_at_.find({s, port});
        if (arc == arc_at_.end()) {
          is_whole = false;
          continue;
        }
        const Arc& cable = topology_.arcs[arc->second];
        const auto far = entry.find(cable.to);
        if (far == entry.end() || !std::binary_search(far->second->begin(), far->second->end(),
                                                      topology_.arcs[cable.reverse].port)) {
          is_whole = false;
          continue;
        }
        if (arc->second < cable.reverse) tree->links.push_back(arc->second);
        if ((*seen)[cable.to]) continue;
        (*seen)[cable.to] = true;
        tree->switches.push_back(cable.to);
      }
    }
    std::sort(tree->members.begin(), tree->members.end());
    return is_whole && tree->links.size() + 1 == tree->switches.size();
  }

  const Topology& topology_;
  std::map<std::pair<uint32_t, uint16_t>, uint32_t> arc_at_, member_at_;  // by switch and port
  std::map<uint32_t, Entry> entries_;                                     // by colour
};

}  // namespace

std::vector<bool> Router::Impl::keep(const Tables& tables, const std::vector<Group>& groups) {
  std::vector<bool> kept(groups.size());
  std::vector<Tree> trees = KnownTrees(topology, tables).all();
  std::erase_if(trees, [&](const Tree& tree) { return tree.color >= options.colors; });
  std::unordered_multimap<uint32_t, size_t> by_member;  // member: trees
  for (size_t t = 0; t < trees.size(); ++t) {
    for (const uint32_t m : trees[t].members) by_member.emplace(m, t);
  }
  for (uint32_t g = 0; g < groups.size(); ++g) {
    std::vector<uint32_t> members = groups[g].members;
    std::sort(members.begin(), members.end());
    if (members.size() < 2 || routed.count(g) != 0) continue;
    // Of the trees with all its members, that with fewest others, and of those with fewest groups.
    const Tree* best = nullptr;
    const auto [first, last] = by_member.equal_range(members[0]);
    for (auto at = first; at != last; ++at) {
      const Tree& tree = trees[at->second];
      const auto rank = [](const Tree& one) {
        return std::pair(one.members.size(), one.groups.size());
      };
      if (best != nullptr && rank(tree) >= rank(*best)) continue;
      if (std::includes(tree.members.begin(), tree.members.end(), members.begin(), members.end())) {
        best = &tree;
      }
    }
    if (best == nullptr) continue;
    kept[g] = true;
    trees[static_cast<size_t>(best - trees.data())].groups.push_back(g);
    routed[g] = {kNone, std::move(members)};
  }
  for (Tree& tree : trees) {
    if (tree.groups.empty()) continue;
    const std::vector<uint32_t> all = std::move(tree.members);
    tree.members.clear();
    for (const uint32_t g : tree.groups) {
      const auto& members = routed[g].second;
      tree.members.insert(tree.members.end(), members.begin(), members.end());
    }
    std::sort(tree.members.begin(), tree.members.end());
    tree.members.erase(std::unique(tree.members.begin(), tree.members.end()), tree.members.end());
    if (tree.members != all) prune(&tree);
    const uint32_t slot = free_slot();
    for (const uint32_t g : tree.groups) routed[g].first = slot;
    slots[slot] = std::move(tree);
    put(slot);
  }
  return kept;
}

}  // namespace weft::mcast
