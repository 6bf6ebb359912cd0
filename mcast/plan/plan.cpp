#include "mcast/plan/plan.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "mcast/routing/hops.hpp"

namespace weft::mcast {

namespace {

std::vector<uint32_t> members_of(const Group& group) {
  std::vector<uint32_t> members = group.members;
  std::ranges::sort(members);
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

}  // namespace

Status make_plan(const Topology& topology, const std::vector<Group>& groups,
                 const PlanOptions& options, Plan* plan) {
  if (options.entries == 0) return {Code::bad_argument, "a table of 0 entries holds no tree"};
  std::vector<std::vector<uint32_t>> members;
  for (const Group& group : groups) members.push_back(members_of(group));
  std::vector<uint32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](uint32_t a, uint32_t b) { return members[a].size() > members[b].size(); });

  plan->routes.assign(groups.size(), {});
  Router router(topology, {.colors = options.entries});
  for (const uint32_t g : order) {
    if (members[g].size() < options.min_members) {
      plan->routes[g].why = fmt::format("{} members", members[g].size());
      continue;
    }
    if (const Status status = router.add_group(g, groups[g]); status == Code::not_found)
      plan->routes[g].why = "its members cannot reach each other";
    else if (!status)
      plan->routes[g].why = "no entry is left";
  }
  // Groups share a tree when entries run short: the largest of them keeps it.
  for (const Tree& tree : router.trees()) {
    const uint32_t keeps = *std::ranges::max_element(
        tree.groups, {}, [&](uint32_t g) { return std::pair(members[g].size(), ~g); });
    for (const uint32_t g : tree.groups)
      if (members[g] != members[keeps]) {
        if (Status status = router.remove_group(g); !status) return status;
        plan->routes[g].why = "no entry is left";
      }
  }

  plan->trees = router.trees();
  HeightMeter meter(topology);
  for (const Tree& tree : plan->trees) {
    const uint32_t height = meter.height(tree);
    for (const uint32_t g : tree.groups) {
      plan->routes[g].tree = &tree;
      plan->routes[g].height = height;
    }
  }
  Hops hops(topology);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Plan::GroupRoute& route = plan->routes[g];
    if (members[g].empty()) continue;
    hops.prepare();
    const auto switch_of = [&](uint32_t member) { return topology.endpoints[member].on_switch; };
    const auto cable_of = [&](uint32_t member) {  // of a host to its switch
      return topology.endpoints[member].switch_port == 0 ? 0u : 1u;
    };
    const uint32_t first = members[g].front();
    const uint8_t* row = hops.row(switch_of(first));
    for (const uint32_t member : members[g])
      if (member != first)
        route.pipeline_cables += row[switch_of(member)] + cable_of(first) + cable_of(member);
    if (route.tree == nullptr) continue;
    route.tree_cables = route.tree->links.size();
    for (const uint32_t member : members[g]) route.tree_cables += cable_of(member);
  }
  plan->figures = measure(topology, plan->trees);
  const Served served = served_groups(groups, plan->trees);
  return verify_tables(topology, served.groups, served.entry_of, make_tables(topology, plan->trees),
                       options.entries);
}

}  // namespace weft::mcast
