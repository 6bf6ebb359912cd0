#include "base/log.hpp"

#include <unistd.h>

#include <atomic>
#include <string>

namespace weft::log {
namespace {
// Process-wide by nature: standard error is. relaxed: a level seen late loses a line at most.
std::atomic<int> current{static_cast<int>(LogLevel::warn)};
constexpr std::string_view kNames[] = {"error", "warning", "info", "debug"};
}  // namespace

void set_level(LogLevel level) noexcept {
  current.store(static_cast<int>(level), std::memory_order_relaxed);
}

LogLevel level() noexcept { return static_cast<LogLevel>(current.load(std::memory_order_relaxed)); }

void write(LogLevel level, int rank, std::string_view text) {
  const auto name = kNames[static_cast<int>(level)];
  const std::string line = rank < 0 ? fmt::format("weft {}: {}\n", name, text)
                                    : fmt::format("weft[{}] {}: {}\n", rank, name, text);
  // One write call, so that lines of several processes do not mix.
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace weft::log
