#pragma once
// weft-info --tune.
#include "base/settings.hpp"

namespace weft {

// Measures the network between two hosts of this process's job, and prints the table of collectives
// that the model (coll/select/model.hpp) yields for it, for communicators of up to `num_processes`;
// with WEFT_OFFLOAD also the lengths at which its switch is faster (tune_offload.hpp). Returns the
// exit status: 1 if that fails, 2 if the processes of the job are on one host.
int tune(const Settings& settings, int num_processes);

}  // namespace weft
