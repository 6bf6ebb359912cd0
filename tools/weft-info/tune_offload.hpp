#pragma once
// The part of weft-info --tune for settings that name a switch that computes.
#include "tagged/engine.hpp"

namespace weft {

// Times MPI_Allreduce by the switch and by the hosts, among all processes of the job, and prints,
// on rank 0, the settings that make jobs of this shape take the faster one. All processes call it;
// WEFT_OFFLOAD_WHEN must be force.
Status tune_offload(tagged::Engine& engine);

}  // namespace weft
