#pragma once
// Processes of other jobs: the steps of MPI_Init and MPI_Finalize for them.
#include "weft/status.hpp"

namespace weft::mpi {

// Collective, in a job that was spawned: connects with the processes that spawned it.
Status meet_parent();
void destroy_ports();

}  // namespace weft::mpi
