#pragma once
// The ranks of a job exchange the addresses of their Nodes through the job's collective calls, so
// that they can be members of groups. Between hosts, each listens on the local addresses of its
// routes to the others.
#include <string>
#include <vector>

#include "weft/job.hpp"
#include "weft/node.hpp"

namespace weft::mcast {

struct JobRank {
  std::string address;  // as Node::connect takes it
  std::string name;     // for messages
  int host = 0;         // the same number for all ranks of a host
};

// The settings with the rank's name and a random secret of rank 0, where they have none.
// Collective; throws Error (peer_lost).
NodeSettings settings_of(transport::Job& job, NodeSettings settings);
// Makes the Node listen for other hosts, and returns all ranks. Collective; throws Error.
std::vector<JobRank> meet(transport::Job& job, Node& node);

}  // namespace weft::mcast
