#pragma once
// What the verbs fabric finds on this host, for weft-info --check: devices that are there, and
// those that should be. Any thread.
#include "base/settings.hpp"
#include "fabric/inspection.hpp"

namespace weft::verbs {

// A place for every usable port.
void inspect(const Settings& settings, fabric::Inspection& inspection);

}  // namespace weft::verbs
