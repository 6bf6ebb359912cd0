#pragma once
// What weft-info --tune does.
#include "base/settings.hpp"

namespace weft {

// Measures the network between two hosts of the job that this process is of, and prints the table
// of collectives that the model (coll/select/model.hpp) gives for it, for communicators of up to
// `num_processes`; with WEFT_OFFLOAD also where its switch is faster (tune_offload.hpp). The exit
// status: 1 if that fails, 2 if the processes of the job are on one host.
int tune(const Settings& settings, int num_processes);

}  // namespace weft
