#pragma once
// How the ranks of a job find each other as members of groups: each sends all others where its Node
// listens, through the job's own collective calls. Hosts meet under the addresses that lead from
// one to another.
#include <string>
#include <vector>

#include "weft/job.hpp"
#include "weft/node.hpp"

namespace weft::mcast {

struct JobRank {
  std::string address;  // as Node::connect takes it
  std::string name;     // for messages
  int host = 0;         // a number that those of one host share
};

// The settings with what the job knows: a name, and a secret that rank 0 makes up. Collective;
// throws Error (peer_lost).
NodeSettings settings_of(transport::Job& job, NodeSettings settings);
// The ranks, once the Node listens where those of other hosts reach it. Collective; throws Error.
std::vector<JobRank> meet(transport::Job& job, Node& node);

}  // namespace weft::mcast
