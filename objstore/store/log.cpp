#include "log.hpp"

#include <fmt/format.h>

namespace weft::objstore {

namespace {
LogSink log_sink = nullptr;  // process-wide by nature: a store's log is
}

void set_log_sink(LogSink sink) { log_sink = sink; }

void write_log(LogSeverity severity, std::string_view text,
               std::initializer_list<LogField> fields) {
  if (log_sink != nullptr) log_sink(severity, text, {fields.begin(), fields.size()});
}

std::string printable(std::string_view text) {
  std::string made(text);
  for (char& letter : made)
    if (letter < ' ' || letter > '~') letter = '?';
  return made;
}

std::string size_text(unsigned long long bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes);
  int unit = -1;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

}  // namespace weft::objstore
