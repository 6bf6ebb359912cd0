#pragma once
// Chooses the groups that get a tree in the switches' tables; the others use the binomial pipeline.
#include <string>
#include <vector>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

struct PlanOptions {
  uint32_t entries = kNone;  // of a switch's table that may be used; kNone: no limit
  uint32_t min_members = 3;  // groups with fewer get no tree
};

struct Plan {
  struct GroupRoute {            // of one group, in the order they were given
    const Tree* tree = nullptr;  // nullptr: the binomial pipeline
    uint32_t height = 0;         // hops from the tree's root to the farthest member's switch
    std::string why;             // it gets no tree
    // Cables that a packet crosses until all members have it: by the tree, each once; between the
    // members, as the pipeline sends, as many as lie between the first one and each other.
    uint64_t tree_cables = 0, pipeline_cables = 0;
  };
  std::vector<Tree> trees;
  std::vector<GroupRoute> routes;
  Figures figures;  // of the trees
};

// Routes the groups by MR4LMS, those with most members first: a tree saves the pipeline's copies
// over its members' links, one a member. A group whose tree would also reach members of others gets
// none, so that no host gets what it has not asked for. Groups with the same members share a tree.
// The tables are checked by forwarding packets. bad_argument: a limit of 0 entries.
Status make_plan(const Topology& topology, const std::vector<Group>& groups,
                 const PlanOptions& options, Plan* plan);

// weft-mcast plan; the exit status.
struct PlanFiles {
  std::string topology, groups, json, tables;
};
int run_plan(const PlanFiles& files, const PlanOptions& options);

}  // namespace weft::mcast
