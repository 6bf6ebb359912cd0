#pragma once
// This rank's share of its host: cores and memory.
#include <cstdint>
#include <string>
#include <vector>

#include "weft/job.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// Number of threads for this rank, the same for each rank of the host: at least 1.
int share_of_cores(const transport::Job& job);

// A core for each thread, disjoint from those of the host's other ranks; empty if there are too few
// cores, or the launcher has bound the ranks to different ones.
std::vector<int> own_cores(transport::Job& job, int num_threads);

// Bytes that this host, or the control group, has left for its ranks; as much as any memory if
// unknown. Pages that only cache files count as left.
std::uint64_t available_memory();

// As "12 MiB".
std::string mib(std::uint64_t bytes);

// Collective, the same result everywhere. no_memory, with the bytes needed, available and missing,
// and `advice`, if the ranks of a host together need more than it has.
Status check_memory(transport::Job& job, std::uint64_t bytes_needed, const std::string& what,
                    const char* advice);

}  // namespace weft::graph
