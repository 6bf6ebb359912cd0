#pragma once
// Log: lines on standard error, "weft[rank] level: text". Off the hot path only.
// Any thread may log; a line is one write and is never torn.
#include <fmt/format.h>

#include <iterator>
#include <new>
#include <string_view>

namespace weft {

enum class LogLevel : int { error = 0, warn = 1, info = 2, debug = 3 };

namespace log {
// Lines above this level are dropped. Set once at start from the setting LOG.
void set_level(LogLevel level) noexcept;
LogLevel level() noexcept;
void write(LogLevel level, int rank, std::string_view text) noexcept;
}  // namespace log

// rank < 0: not in a job (yet), the line carries no rank. Where there is no memory for a long line,
// its format without the arguments is logged.
template <class... Args>
void log_line(LogLevel level, int rank, fmt::format_string<Args...> format,
              Args&&... args) noexcept {
  if (static_cast<int>(level) > static_cast<int>(log::level())) return;
  const fmt::string_view general = format;
  try {
    fmt::memory_buffer text;  // usual lines fit into it without more memory
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    log::write(level, rank, {text.data(), text.size()});
  } catch (const std::bad_alloc&) {
    log::write(level, rank, {general.data(), general.size()});
  }
}

}  // namespace weft
