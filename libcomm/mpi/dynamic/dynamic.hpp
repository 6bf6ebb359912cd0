#pragma once
// Processes of other jobs: what MPI_Init and MPI_Finalize have to do about them.
#include "weft/status.hpp"

namespace weft::mpi {

// Collective, in a job that was spawned: meets those who spawned it.
Status meet_parent();
void destroy_ports();

}  // namespace weft::mpi
