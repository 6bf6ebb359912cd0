#include "base/log_sink.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <iterator>

namespace weft::log {
namespace {
// Process-wide by nature: standard error is. relaxed: a level seen late loses a line at most.
std::atomic<int> current{static_cast<int>(LogLevel::warn)};
std::atomic<void (*)(LogLevel, std::string_view)> sink{nullptr};
constexpr std::string_view kNames[] = {"error", "warning", "info", "debug"};
}  // namespace

void set_level(LogLevel level) noexcept {
  current.store(static_cast<int>(level), std::memory_order_relaxed);
}

LogLevel level() noexcept { return static_cast<LogLevel>(current.load(std::memory_order_relaxed)); }

void set_sink(void (*to)(LogLevel, std::string_view)) noexcept {
  sink.store(to, std::memory_order_release);
}

void write(LogLevel level, int rank, std::string_view text) noexcept {
  // acquire: what the sink uses; pairs with set_sink.
  if (const auto to = sink.load(std::memory_order_acquire); to != nullptr) return to(level, text);
  char head[48];
  const auto name = kNames[static_cast<int>(level)];
  const char* const end =
      rank < 0 ? fmt::format_to_n(head, sizeof head, "weft {}: ", name).out
               : fmt::format_to_n(head, sizeof head, "weft[{}] {}: ", rank, name).out;
  char newline = '\n';
  const iovec parts[] = {{head, static_cast<std::size_t>(end - head)},
                         {const_cast<char*>(text.data()), text.size()},
                         {&newline, 1}};
  // One call, so that lines of several processes do not mix.
  if (::writev(STDERR_FILENO, parts, std::size(parts)) < 0) return;
}

}  // namespace weft::log
