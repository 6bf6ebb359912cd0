#include "log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

namespace weft::objstore {

void write_log(std::string_view text) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  const std::string line = fmt::format("{:%Y-%m-%dT%H:%M:%S%z} weft-store: {}\n", local, text);
  // One call, so that lines of several processes do not mix.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
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
