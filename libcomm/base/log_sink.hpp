#pragma once
// The sink of log lines instead of standard error, for a command that writes its own log.
#include <string_view>

#include "base/log.hpp"

namespace weft::log {

// Called by any thread, with lines that the level lets through. Null: standard error. Set once at
// start.
void set_sink(void (*sink)(LogLevel level, std::string_view text)) noexcept;

}  // namespace weft::log
