#pragma once
// Log: lines on standard error, "weft[rank] level: text". Off the hot path only.
// Any thread may log; a line is one write and is never torn.
#include <fmt/core.h>

#include <string_view>

namespace weft {

enum class LogLevel : int { error = 0, warn = 1, info = 2, debug = 3 };

namespace log {
// Lines above this level are dropped. Set once at start from the setting LOG.
void set_level(LogLevel level) noexcept;
LogLevel level() noexcept;
void write(LogLevel level, int rank, std::string_view text);
}  // namespace log

// rank < 0: not in a job (yet), the line carries no rank.
template <class... Args>
void log_line(LogLevel level, int rank, fmt::format_string<Args...> format, Args&&... args) {
  if (static_cast<int>(level) <= static_cast<int>(log::level()))
    log::write(level, rank, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weft
