#pragma once
// weftrun --serve-names: names for several jobs (docs/use/dynamic-processes.md).
#include "launcher/options.hpp"
#include "weft/status.hpp"

namespace weft::weftrun {

// Prints where it listens, and serves until SIGTERM or SIGINT.
Status serve_names(const Options& options);

}  // namespace weft::weftrun
