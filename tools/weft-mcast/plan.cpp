// weft-mcast plan: its files and its output.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "mcast/plan/plan.hpp"
#include "mcast/routing/files.hpp"

namespace weft::mcast {

namespace {

constexpr std::size_t kShown = 40;  // groups; all of them are in the JSON

int fail(const Status& status) {
  fmt::print(stderr, "weft-mcast: {}\n", status.text());
  return 2;
}

template <class Read>
Status read_file(const std::string& path, Read&& read) {
  std::ifstream in;
  if (Status status = open_input(path, &in); !status) return status;
  return read(in);
}

nlohmann::json to_json(const std::vector<Group>& groups, const Plan& plan) {
  nlohmann::json all = {{"trees", plan.trees.size()},
                        {"entries", plan.figures.colors},
                        {"max_trees_on_a_cable", plan.figures.max_efi},
                        {"groups", nlohmann::json::array()}};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Plan::GroupRoute& route = plan.routes[g];
    nlohmann::json one = {{"id", groups[g].id},
                          {"members", groups[g].members.size()},
                          {"way", route.tree != nullptr ? "tree" : "pipeline"}};
    if (route.tree != nullptr) {
      one["mlid"] = kFirstMlid + route.tree->color;
      one["height"] = route.height;
      one["switches"] = route.tree->switches.size();
      one["cables"] = route.tree_cables;
    } else {
      one["why"] = route.why;
    }
    one["pipeline_cables"] = route.pipeline_cables;
    all["groups"].push_back(std::move(one));
  }
  return all;
}

void print(const std::vector<Group>& groups, const Plan& plan) {
  fmt::print("{:<20} {:>8}  {:<9} {:>7} {:>7} {:>7} {:>10}  {}\n", "group", "members", "way",
             "MLID", "height", "cables", "pipeline's", "why no tree");
  for (std::size_t g = 0; g < std::min(groups.size(), kShown); ++g) {
    const Plan::GroupRoute& route = plan.routes[g];
    if (route.tree != nullptr)
      fmt::print("{:<20} {:>8}  {:<9} {:>#7x} {:>7} {:>7} {:>10}\n", groups[g].id,
                 groups[g].members.size(), "tree", kFirstMlid + route.tree->color, route.height,
                 route.tree_cables, route.pipeline_cables);
    else
      fmt::print("{:<20} {:>8}  {:<9} {:>7} {:>7} {:>7} {:>10}  {}\n", groups[g].id,
                 groups[g].members.size(), "pipeline", "", "", "", route.pipeline_cables,
                 route.why);
  }
  if (groups.size() > kShown)
    fmt::print("... and {} more; --json has all\n", groups.size() - kShown);
  uint64_t by_trees = 0, by_pipeline = 0;
  for (const Plan::GroupRoute& route : plan.routes)
    if (route.tree != nullptr) {
      by_trees += route.tree_cables;
      by_pipeline += route.pipeline_cables;
    }
  const auto num_by_tree =
      std::ranges::count_if(plan.routes, [](const auto& route) { return route.tree != nullptr; });
  fmt::print(
      "{} groups go by {} trees, in {} entries of a switch's table, at most {} on a cable; {} by "
      "the pipeline\n",
      num_by_tree, plan.trees.size(), plan.figures.colors, plan.figures.max_efi,
      groups.size() - static_cast<std::size_t>(num_by_tree));
  if (by_trees > 0)
    fmt::print(
        "by the trees a packet of each of these groups crosses {} cables, by the pipeline {}\n",
        by_trees, by_pipeline);
}

}  // namespace

int run_plan(const PlanFiles& files, const PlanOptions& options) {
  Topology topology;
  std::vector<Group> groups;
  Status status = read_file(files.topology, [&](std::istream& in) {
    return read_topology(in, files.topology, &topology);
  });
  if (status)
    status = read_file(files.groups, [&](std::istream& in) {
      return read_groups(in, files.groups, topology, &groups);
    });
  Plan plan;
  if (status) status = make_plan(topology, groups, options, &plan);
  if (!status) return fail(status);
  if (plan.figures.colors > kLastMlid - kFirstMlid + 1)
    return fail({Code::bad_argument,
                 fmt::format("the trees need more entries than there are MLIDs: set --entries to "
                             "at most {}",
                             kLastMlid - kFirstMlid + 1)});
  print(groups, plan);
  OutputFiles output;
  if (!files.json.empty()) output.add(files.json, to_json(groups, plan).dump(1) + "\n");
  if (!files.tables.empty()) {
    std::ostringstream text;
    write_mcfdbs(topology, make_tables(topology, plan.trees), text);
    output.add(files.tables, text.str());
  }
  status = output.commit();
  return status ? 0 : fail(status);
}

}  // namespace weft::mcast
