#pragma once
// The clock of this process beside that of rank 0: hosts have clocks of their own, whose difference
// messages measure.
#include <cstdint>

#include "mpi.h"

namespace weft::profile {

struct Comparison {
  std::uint64_t at_ns = 0;     // by the clock of this process
  std::int64_t offset_ns = 0;  // to be added to it
  std::uint64_t error_ns = 0;  // at most; 0 on rank 0's host
};

// Collective. Returns MPI_SUCCESS, or the error that a call returned.
int compare_clocks(MPI_Comm comm, Comparison& comparison);

// Returns a time of this process by rank 0's clock. Clocks drift: between two comparisons in
// proportion.
std::uint64_t by_common_clock(std::uint64_t ns, const Comparison& first,
                              const Comparison& last) noexcept;

}  // namespace weft::profile
