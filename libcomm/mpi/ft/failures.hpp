#pragma once
// The members of a communicator that are known to have failed.
#include <vector>

#include "mpi/comm/comm.hpp"

namespace weft::mpi::ft {

// World ranks, in the order in which this process has learned of them: later calls return the same
// with others behind it.
std::vector<int> failed_members(const Comm& comm);
// Those of them that the user has acknowledged.
std::vector<int> acknowledged_members(Comm& comm);

}  // namespace weft::mpi::ft
