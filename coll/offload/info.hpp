#pragma once
// What weft-info says about allreduce in the network.
#include <string>

#include "base/settings.hpp"

namespace weft::offload {

// Whether the settings want it, and what the switch they name answers within OFFLOAD_TIMEOUT_MS, or
// why it cannot be used. Lines, each with its end.
std::string offload_text(const Settings& settings);

}  // namespace weft::offload
