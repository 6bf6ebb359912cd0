#pragma once
// Exchanges the logged ends of messages between their processes, and finds whom this one waited
// for.
#include "clocks.hpp"
#include "messages.hpp"
#include "pairing.hpp"

namespace weft::profile {

struct OwnWaits {
  Waits waits;
  std::uint64_t clock_error_ns = 0;
};

// Collective. Returns MPI_SUCCESS, or the error that a call returned. began: the comparison of the
// clocks when the log began.
int exchange(MPI_Comm comm, Log log, const Comparison& began, OwnWaits& found);

}  // namespace weft::profile
