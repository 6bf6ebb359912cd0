// MR4LMS (Chen, He, Li, Qi: multicast routing for limited MFT size).
//
// A colour is a table entry: trees that share no switch may share a colour. A new group gets the
// tree of least height and a colour free on all of its switches (first build, then colour). Once
// that fails, a tree of the same height is sought among the switches where a colour is free (first
// colour, then build), until that has worked 20 times in a row. When no colour does, the group
// shares a tree with others.
//
// Unless options.as_paper says otherwise, these things differ from the paper:
// - Where it takes the least loaded root, trees of several roots are built and the one kept whose
//   busiest cable is least busy: the greedy choice made the torus worse with more colours.
// - A group for which build-then-colour fails tries colour-then-build before it is merged, and that
//   may make the tree a few hops higher: a merge would make it worse.
// - Groups with the same members share a tree as soon as entries run short on its switches, so that
//   what is left serves groups that differ.
// - Merging tries a few colours and takes the one that loads cables least, not the nearest tree's.
#include "mcast/routing/router_impl.hpp"

namespace weft::mcast {

namespace {
constexpr uint32_t kSuccessesToGoBack = 20;
}

uint64_t hash_of(const std::vector<uint32_t>& members) {
  uint64_t hash = members.size();
  for (const uint32_t m : members) hash = (hash ^ m) * 0x9e3779b97f4a7c15ull + (hash >> 29);
  return hash;
}

void Router::Impl::put(uint32_t slot) {
  const Tree& tree = slots[slot];
  const uint32_t weight = static_cast<uint32_t>(tree.groups.size());
  for (const uint32_t link : tree.links) {
    highest = std::max(highest, load[cable_of(topology, link)] += weight);
  }
  by_members.emplace(hash_of(tree.members), slot);
  for (const uint32_t s : tree.switches) {
    if (owner[s].size() <= tree.color) owner[s].resize(tree.color + 1, kNone);
    if (busy[s].size() <= tree.color / 64) busy[s].resize(tree.color / 64 + 1);
    owner[s][tree.color] = slot;
    busy[s][tree.color / 64] |= 1ull << tree.color % 64;
    ++switch_load[s];
    changes.push_back(uint64_t{s} << 32 | tree.color);
  }
}

void Router::Impl::take(uint32_t slot) {
  const Tree& tree = slots[slot];
  const uint32_t weight = static_cast<uint32_t>(tree.groups.size());
  for (const uint32_t link : tree.links) load[cable_of(topology, link)] -= weight;
  for (const uint32_t s : tree.switches) {
    owner[s][tree.color] = kNone;
    busy[s][tree.color / 64] &= ~(1ull << tree.color % 64);
    --switch_load[s];
    changes.push_back(uint64_t{s} << 32 | tree.color);
  }
  const auto [first, last] = by_members.equal_range(hash_of(tree.members));
  by_members.erase(
      std::find_if(first, last, [&](const auto& each) { return each.second == slot; }));
}

uint32_t Router::Impl::free_slot() {
  if (unused.empty()) {
    slots.emplace_back();
    return static_cast<uint32_t>(slots.size()) - 1;
  }
  const uint32_t slot = unused.back();
  unused.pop_back();
  return slot;
}

Status Router::Impl::add(uint32_t number, const Group& group) {
  if (options.colors == 0) return {Code::bad_argument, "a table of 0 entries holds no tree"};
  if (routed.count(number)) {
    return {Code::bad_argument, "group " + group.id + " is routed already"};
  }
  std::vector<uint32_t> members = group.members;
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  if (members.empty() || members.back() >= topology.endpoints.size()) {
    return {Code::bad_argument, "group " + group.id + " needs members of the fabric"};
  }
  if (members.size() == 1) {
    routed[number] = {kNone, std::move(members)};
    return Code::ok;
  }
  hops.prepare();
  const std::vector<uint32_t> targets = member_switches(topology, members);
  std::vector<uint8_t> worst;
  eccentricities(topology, hops, targets, &worst);
  if (worst[targets[0]] == Hops::kFar) {
    const auto is_elsewhere = [&](uint32_t s) {
      return topology.part_of[s] != topology.part_of[targets[0]];
    };
    return {Code::not_found,
            "group " + group.id +
                (std::any_of(targets.begin(), targets.end(), is_elsewhere)
                     ? ": its members cannot reach each other"
                     : ": its members are 255 hops apart or more, but trees have at most 254")};
  }
  Tree tree;
  bool done = false;
  if (!color_first) {
    done = build_then_color(targets, worst, &tree);
    if (!done) {
      color_first = ran_short = true;
      successes = 0;
    }
  }
  if (color_first) {
    done = color_then_build(targets, worst, &tree);
    successes = done ? successes + 1 : 0;
    if (successes >= kSuccessesToGoBack) color_first = false;
  }
  const uint32_t same = options.colors == kNone || options.as_paper ? kNone : same_members(members);
  uint32_t slot;
  if (same != kNone && (!done || better_shared(tree, same))) {
    slot = join(number, same);
  } else if (done) {
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

Status Router::Impl::remove(uint32_t number) {
  const auto found = routed.find(number);
  if (found == routed.end()) return {Code::not_found, "no such group"};
  const uint32_t slot = found->second.first;
  routed.erase(found);
  if (slot != kNone) leave_tree(slot, number);
  return Code::ok;
}

void Router::Impl::leave_tree(uint32_t slot, uint32_t number) {
  take(slot);
  Tree& tree = slots[slot];
  std::erase(tree.groups, number);
  if (tree.groups.empty()) {
    tree = Tree();
    unused.push_back(slot);
    return;
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
}

// Cuts off branches that no member needs (algorithm 6), from the leaves inwards.
void Router::Impl::prune(Tree* tree) const {
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

Router::Router(const Topology& topology, RouterOptions options)
    : impl_(new Impl(topology, options)) {}
Router::~Router() { delete impl_; }

Status Router::add_group(uint32_t number, const Group& group) { return impl_->add(number, group); }
Status Router::remove_group(uint32_t number) { return impl_->remove(number); }
std::vector<bool> Router::keep(const Tables& previous, const std::vector<Group>& groups) {
  return impl_->keep(previous, groups);
}
Status Router::join_group(uint32_t number, uint32_t member) {
  return impl_->add_member(number, member);
}
Status Router::leave_group(uint32_t number, uint32_t member) {
  return impl_->remove_member(number, member);
}
void Router::spread(const std::function<void(size_t built, size_t most)>& progress) {
  if (impl_->ran_short && !impl_->options.as_paper) impl_->spread(progress);
}

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
