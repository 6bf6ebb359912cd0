#include "tools/server/log_lines.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

namespace weft::server {
namespace {

// Process-wide by nature: standard error is.
std::string_view server_name = "weft";
LogFormat log_format = LogFormat::text;

// Bytes beyond ASCII may be no UTF-8, which JSON has to be.
bool is_plain(char letter) { return letter >= ' ' && letter <= '~'; }

std::string json_string(std::string_view text) {
  std::string made = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') made += '\\';
    made += is_plain(letter) ? letter : '?';
  }
  return made + '"';
}

std::string text_value(std::string_view text) {
  return text.empty() || text.find_first_of(" \"\\=[]") != std::string_view::npos
             ? json_string(text)
             : std::string(text);
}

std::string plain(std::string_view text) {
  std::string made(text);
  for (char& letter : made)
    if (!is_plain(letter)) letter = '?';
  return made;
}

}  // namespace

void set_log(std::string_view server, LogFormat format) {
  server_name = server;
  log_format = format;
}

void write_line(std::string_view level, std::string_view text, std::span<const LogField> fields) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::string line;
  if (log_format == LogFormat::json) {
    line = fmt::format(R"({{"time":"{:%Y-%m-%dT%H:%M:%S%z}","server":{},"level":{},"message":{})",
                       local, json_string(server_name), json_string(level), json_string(text));
    for (const LogField& field : fields)
      line += fmt::format(",{}:{}", json_string(field.name), json_string(field.value));
    line += "}\n";
  } else {
    line = fmt::format("{:%Y-%m-%dT%H:%M:%S%z} {}: {}: {}", local, server_name, level, plain(text));
    const char* between = " [";
    for (const LogField& field : fields) {
      line += fmt::format("{}{}={}", between, field.name, text_value(plain(field.value)));
      between = " ";
    }
    line += fields.empty() ? "\n" : "]\n";
  }
  // One call, so that lines of several processes do not mix.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace weft::server
