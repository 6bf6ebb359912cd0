#include "coll/offload/tree.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "coll/plan/links.hpp"

namespace weft::offload {

using coll::index;
using innet::Address;
using Spine = innet::Capabilities::Spine;

namespace {

// The positions of equal addresses, in the order of the first of each.
std::vector<std::vector<int>> positions_of(const std::vector<Address>& addresses) {
  std::vector<std::vector<int>> positions;
  std::vector<Address> seen;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto at =
        static_cast<std::size_t>(std::find(seen.begin(), seen.end(), addresses[i]) - seen.begin());
    if (at == seen.size()) {
      seen.push_back(addresses[i]);
      positions.emplace_back();
    }
    positions[at].push_back(static_cast<int>(i));
  }
  return positions;
}

// The steps of one level. `members`: who has the sum of each child.
void add_level(SumOrder& order, const std::vector<std::vector<int>>& children,
               const std::vector<int>& members) {
  for (const auto& under : children)
    for (std::size_t i = 1; i < under.size(); ++i)
      order.push_back({members[index(under[i])], members[index(under[0])]});
}

// A way up from a tor: to a spine, and perhaps through it to a switch above.
struct Way {
  const Spine* spine = nullptr;
  const Spine* above = nullptr;  // null: the spine is at the top
  std::uint32_t room = 0;        // groups

  const Spine& top() const noexcept { return above != nullptr ? *above : *spine; }
};

Way way_to(const innet::Capabilities& can, const Spine& one) {
  const bool is_direct = one.below == 0;
  const Spine& spine = is_direct ? one : can.spines[one.below - 1u];
  const bool answers = one.answers && spine.answers;
  return {&spine, is_direct ? nullptr : &one,
          answers ? std::min(one.free_groups, spine.free_groups) : 0};
}

// The ways that all leaders under a tor see, with the least room that one of them sees.
std::vector<Way> ways_up(const std::vector<Report>& leaders, const std::vector<int>& under,
                         bool ordered) {
  std::vector<Way> ways;
  const innet::Capabilities& first = leaders[index(under[0])].can;
  for (const Spine& one : first.spines) {
    Way way = way_to(first, one);
    for (const int leader : under) {
      std::uint32_t room = 0;
      const innet::Capabilities& can = leaders[index(leader)].can;
      for (const Spine& other : can.spines) {
        const Way same = way_to(can, other);
        if (other.address == one.address && same.spine->address == way.spine->address &&
            (same.above == nullptr) == (way.above == nullptr))
          room = same.room;
      }
      way.room = std::min(way.room, room);
    }
    const auto adds_in_order = [](const Spine& at) { return at.features & innet::kFeatureOrdered; };
    if (ordered && !(adds_in_order(way.top()) && adds_in_order(*way.spine))) way.room = 0;
    if (way.room != 0) ways.push_back(way);
  }
  return ways;
}

// One way for each tor, all to the same top; empty: there are none. `most`: the most children that
// a switch had room for where some did not fit.
std::vector<Way> ways_to(const Address& top, bool has_spines,
                         const std::vector<std::vector<Way>>& ways, std::size_t& most) {
  std::vector<Way> chosen;
  struct Used {
    Address spine;
    std::size_t children;
  };
  std::vector<Used> spines;
  for (const auto& of_tor : ways) {
    const Way* best = nullptr;
    for (const Way& way : of_tor) {
      if (!(way.top().address == top) || (way.above != nullptr) != has_spines) continue;
      const auto found = std::ranges::find(spines, way.spine->address, &Used::spine);
      const std::size_t children = found != spines.end() ? found->children : 0;
      if (children >= way.spine->max_children)
        most = std::max(most, children);
      else if (best == nullptr || best->room < way.room)
        best = &way;
    }
    if (best == nullptr) return {};
    chosen.push_back(*best);
    const auto found = std::ranges::find(spines, best->spine->address, &Used::spine);
    if (found == spines.end())
      spines.push_back({best->spine->address, 1});
    else
      ++found->children;
  }
  const std::size_t room = chosen[0].top().max_children;
  if (has_spines && spines.size() > room) {
    most = std::max(most, room);
    return {};
  }
  return chosen;
}

// The ways with the most room, those without a third level first.
std::vector<Way> choose_ways(const std::vector<std::vector<Way>>& ways, std::size_t& most) {
  for (const bool has_spines : {false, true}) {
    std::vector<Way> chosen;
    std::uint32_t most_room = 0;
    for (const Way& first : ways[0]) {
      if ((first.above != nullptr) != has_spines) continue;
      auto found = ways_to(first.top().address, has_spines, ways, most);
      if (found.empty()) continue;
      const std::uint32_t room = std::ranges::min_element(found, {}, &Way::room)->room;
      if (room <= most_room) continue;
      most_room = room;
      chosen = std::move(found);
    }
    if (!chosen.empty()) return chosen;
  }
  return {};
}

Tree refused(std::string why) {
  Tree tree;
  tree.refusal = std::move(why);
  return tree;
}

}  // namespace

SumOrder order_of_sums(const std::vector<Address>& tors) {
  const auto under = positions_of(tors);
  std::vector<int> self(tors.size()), heads, all(under.size());
  for (std::size_t i = 0; i < self.size(); ++i) self[i] = static_cast<int>(i);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  for (const auto& one : under) heads.push_back(one[0]);
  SumOrder order;
  add_level(order, under, self);
  add_level(order, {all}, heads);
  return order;
}

Tree grow(const std::vector<Report>& leaders, bool ordered) {
  Tree tree;
  std::vector<Address> tors;
  tree.elements = tree.operations = ~std::uint32_t{0};
  tree.payload_bytes = innet::kMaxPayloadBytes;
  const auto add = [&](const auto& can) {
    tree.elements &= can.elements;
    tree.operations &= can.operations;
    tree.payload_bytes = std::min(tree.payload_bytes, can.payload_bytes);
  };
  for (std::size_t i = 0; i < leaders.size(); ++i) {
    const Report& leader = leaders[i];
    if (leader.tor.port == 0)
      return refused(fmt::format("leader {} has no switch (WEFT_OFFLOAD_SWITCH)", i));
    if (!leader.answers)
      return refused(
          fmt::format("the switch {} of leader {} does not answer", innet::text(leader.tor), i));
    // A leader has one socket for the others, and takes them for who they are by their addresses.
    if (leader.tor.is_ipv6 != leaders[0].tor.is_ipv6)
      return refused(fmt::format("the switches {} and {} have addresses of IPv4 and of IPv6",
                                 innet::text(leaders[0].tor), innet::text(leader.tor)));
    if (ordered && !(leader.can.features & innet::kFeatureOrdered))
      return refused(fmt::format("the switch {} cannot add in order", innet::text(leader.tor)));
    if (leader.can.free_groups == 0)
      return refused(
          fmt::format("the switch {} has no room for another group", innet::text(leader.tor)));
    add(leader.can);
    tors.push_back(leader.tor);
  }
  const auto under = positions_of(tors);
  tree.levels.push_back(static_cast<int>(under.size()));
  tree.top = tors[0];
  tree.order = order_of_sums(tors);

  // The switches above each tor.
  std::vector<std::vector<innet::Parent>> above(under.size());
  if (under.size() > 1) {
    std::vector<std::vector<Way>> ways;
    for (const auto& leaders_under : under)
      ways.push_back(ways_up(leaders, leaders_under, ordered));
    std::size_t most = 0;
    const std::vector<Way> chosen = choose_ways(ways, most);
    if (chosen.empty())
      return refused(
          most != 0 ? fmt::format("{} switches are more than a spine takes, {}", under.size(), most)
                    : "no spine with room answers to the switches of all nodes");
    std::vector<Address> spine_of;
    for (const Way& way : chosen) {
      spine_of.push_back(way.spine->address);
      add(*way.spine);
      if (way.above != nullptr) add(*way.above);
    }
    const auto under_spine = positions_of(spine_of);
    const bool has_spines = chosen[0].above != nullptr;
    tree.top = chosen[0].top().address;
    tree.levels.push_back(static_cast<int>(under_spine.size()));
    if (has_spines) tree.levels.push_back(1);
    for (std::size_t spine = 0; spine < under_spine.size(); ++spine)
      for (std::size_t child = 0; child < under_spine[spine].size(); ++child) {
        auto& of_tor = above[index(under_spine[spine][child])];
        of_tor.push_back({spine_of[index(under_spine[spine][child])],
                          static_cast<std::uint8_t>(child),
                          static_cast<std::uint8_t>(under_spine[spine].size())});
        if (has_spines)
          of_tor.push_back({tree.top, static_cast<std::uint8_t>(spine),
                            static_cast<std::uint8_t>(under_spine.size())});
      }
    if (has_spines) {
      std::vector<int> self(tors.size()), tor_heads, spine_heads, all(under_spine.size());
      for (std::size_t i = 0; i < self.size(); ++i) self[i] = static_cast<int>(i);
      for (const auto& one : under) tor_heads.push_back(one[0]);
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<int>(i);
        spine_heads.push_back(tor_heads[index(under_spine[i][0])]);
      }
      tree.order.clear();
      add_level(tree.order, under, self);
      add_level(tree.order, under_spine, tor_heads);
      add_level(tree.order, {all}, spine_heads);
    }
  }
  if (tree.payload_bytes < 16) return refused("the switches take less than 16 bytes a packet");
  tree.branches.resize(leaders.size());
  tree.children.resize(leaders.size());
  for (std::size_t tor = 0; tor < under.size(); ++tor) {
    const Report& first = leaders[index(under[tor][0])];
    if (under[tor].size() > first.can.max_children)
      return refused(fmt::format("{} leaders are more than the switch {} takes, {}",
                                 under[tor].size(), innet::text(first.tor),
                                 first.can.max_children));
    for (std::size_t child = 0; child < under[tor].size(); ++child) {
      innet::Branch& branch = tree.branches[index(under[tor][child])];
      branch.num_children = static_cast<std::uint8_t>(under[tor].size());
      branch.ordered = ordered;
      branch.payload_bytes = tree.payload_bytes;
      branch.num_above = static_cast<std::uint8_t>(above[tor].size());
      std::ranges::copy(above[tor], branch.above.begin());
      tree.children[index(under[tor][child])] = static_cast<std::uint8_t>(child);
    }
  }
  return tree;
}

}  // namespace weft::offload
