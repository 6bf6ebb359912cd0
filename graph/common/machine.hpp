#pragma once
// This rank's share of its host: cores, and memory for what it is about to do.
#include <cstdint>
#include <vector>

#include "weft/job.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// Threads for this rank, where each rank of the host gets as many: at least 1.
int share_of_cores(const transport::Job& job);

// A core for each thread, other ones than the host's other ranks have; empty if there are too few,
// or the launcher has given the ranks different cores already.
std::vector<int> own_cores(transport::Job& job, int num_threads);

// Collective. no_memory, with the number needed and the number there is, if the ranks of a host
// together need more than it has; the same everywhere.
Status check_memory(transport::Job& job, std::uint64_t bytes_needed, const char* what);

}  // namespace weft::graph
