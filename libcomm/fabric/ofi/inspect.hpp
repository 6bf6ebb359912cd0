#pragma once
// What the ofi fabric finds on this host, for weft-info --check. Any thread.
#include "base/settings.hpp"
#include "fabric/inspection.hpp"

namespace weft::ofi {

// One place: the interface that these settings choose.
void inspect(const Settings& settings, fabric::Inspection& inspection);

}  // namespace weft::ofi
