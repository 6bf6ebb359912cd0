#pragma once
// The text of weft-info about allreduce in the network.
#include <string>

#include "base/settings.hpp"

namespace weft::offload {

// Returns whether the settings want it, and the answer of the switch that they name within
// OFFLOAD_TIMEOUT_MS, or why it cannot be used. Lines, each with its end.
std::string offload_text(const Settings& settings);

}  // namespace weft::offload
