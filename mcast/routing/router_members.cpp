// Members that join and leave groups that are routed.
#include "mcast/routing/router_impl.hpp"

namespace weft::mcast {

namespace {

std::string name_of(const Topology& topology, uint32_t member) {
  return topology.nodes[topology.endpoints[member].node].id;
}

}  // namespace

// Leads the tree to a switch by switches where its entry is free. False: there is no such way.
bool Router::Impl::extend(Tree* tree, uint32_t to) const {
  std::vector<bool> is_in(topology.num_switches());
  for (const uint32_t s : tree->switches) is_in[s] = true;
  if (is_in[to]) return true;
  std::vector<uint64_t> distance;
  std::vector<uint32_t> arc_back;
  search(
      tree->switches, Hops::kFar, [&](uint32_t s) { return owner_at(s, tree->color) == kNone; },
      &distance, &arc_back);
  if (distance[to] == UINT64_MAX) return false;
  while (!is_in[to]) {
    is_in[to] = true;
    tree->switches.push_back(to);
    tree->links.push_back(arc_back[to]);
    to = topology.arcs[arc_back[to]].to;
  }
  return true;
}

// Puts another tree in the place of one, and notes the entries that differ alone.
void Router::Impl::replace(uint32_t slot, Tree&& next) {
  const std::vector<uint32_t> old_switches = slots[slot].switches;
  const Tables before = make_tables(topology, {slots[slot]});
  const size_t num_changes = changes.size();
  take(slot);
  slots[slot] = std::move(next);
  put(slot);
  changes.resize(num_changes);
  const Tree& tree = slots[slot];
  const Tables after = make_tables(topology, {tree});
  std::vector<uint32_t> switches = old_switches;
  switches.insert(switches.end(), tree.switches.begin(), tree.switches.end());
  for (const uint32_t s : switches) {
    const uint64_t guid = topology.nodes[topology.switch_nodes[s]].guid;
    const auto one = before.find(guid), other = after.find(guid);
    if (one == before.end() || other == after.end() || one->second != other->second) {
      changes.push_back(uint64_t{s} << 32 | tree.color);
    }
  }
}

Status Router::Impl::add_member(uint32_t number, uint32_t member) {
  const auto found = routed.find(number);
  if (found == routed.end()) return {Code::not_found, "no such group"};
  if (member >= topology.endpoints.size()) return {Code::bad_argument, "no such member"};
  const auto [slot, old_members] = found->second;
  std::vector<uint32_t> members = old_members;
  const auto place = std::lower_bound(members.begin(), members.end(), member);
  if (place != members.end() && *place == member) {
    return {Code::bad_argument, name_of(topology, member) + " is in the group already"};
  }
  members.insert(place, member);
  if (members.size() == 1) {
    found->second.second = std::move(members);
    return Code::ok;
  }
  if (slot != kNone) {
    Tree tree = slots[slot];
    if (extend(&tree, topology.endpoints[member].on_switch)) {
      tree.members.insert(std::lower_bound(tree.members.begin(), tree.members.end(), member),
                          member);
      tree.members.erase(std::unique(tree.members.begin(), tree.members.end()), tree.members.end());
      replace(slot, std::move(tree));
      found->second.second = std::move(members);
      return Code::ok;
    }
  }
  // By another entry, or with other groups.
  const Group group{std::to_string(number), members};
  static_cast<void>(remove(number));
  const Status added = add(number, group);
  if (!added.ok()) {
    const Status restored = add(number, {group.id, old_members});
    if (!restored.ok()) return restored;
  }
  return added;
}

Status Router::Impl::remove_member(uint32_t number, uint32_t member) {
  const auto found = routed.find(number);
  if (found == routed.end()) return {Code::not_found, "no such group"};
  auto& [slot, members] = found->second;
  const auto place = std::lower_bound(members.begin(), members.end(), member);
  if (place == members.end() || *place != member) {
    return {Code::not_found, "the group has no such member"};
  }
  members.erase(place);
  if (slot == kNone) return Code::ok;
  if (members.size() < 2) {
    leave_tree(slot, number);
    slot = kNone;
    return Code::ok;
  }
  Tree tree = slots[slot];
  const auto has_member = [&](uint32_t g) {
    const auto& of_group = routed[g].second;
    return std::binary_search(of_group.begin(), of_group.end(), member);
  };
  if (std::any_of(tree.groups.begin(), tree.groups.end(), has_member)) return Code::ok;
  std::erase(tree.members, member);
  prune(&tree);
  replace(slot, std::move(tree));
  return Code::ok;
}

}  // namespace weft::mcast
