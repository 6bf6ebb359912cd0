#pragma once
// Log lines of the store, with fields for programs that read them. Any thread. Off the hot path.
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace weft::objstore {

enum class LogSeverity { error, warning, info };

struct LogField {
  std::string_view name;
  std::string value;
};

using LogSink = void (*)(LogSeverity severity, std::string_view text,
                         std::span<const LogField> fields);

// The sink takes all lines; without one they are dropped. Set once at start, before there are other
// threads.
void set_log_sink(LogSink sink);

// The text says all that a reader needs; fields have the same values by name, and "event" the kind
// of line.
void write_log(LogSeverity severity, std::string_view text,
               std::initializer_list<LogField> fields = {});
// Replaces control characters by "?", for names and texts from outside.
std::string printable(std::string_view text);
// "4.0 GiB", "160 MiB", "12 bytes".
std::string size_text(unsigned long long bytes);

}  // namespace weft::objstore
