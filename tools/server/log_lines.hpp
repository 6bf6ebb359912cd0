#pragma once
// Log lines of servers on standard error, each with time, level, text and fields:
//   text: 2026-01-31T12:00:00+0100 weft-store: warning: a peer was lost [peer=b
//   address=10.0.0.2:7001] json:
//   {"time":"2026-01-31T12:00:00+0100","server":"weft-store","level":"warning",
//          "message":"a peer was lost","peer":"b","address":"10.0.0.2:7001"}
// Any thread; a line is one write and has no control characters. Off the hot path.
// Tests: tests/tools/endpoint_test.py.
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace weft::server {

enum class LogFormat { text, json };

struct LogField {
  std::string_view name;
  std::string value;
};

// Set once at start, before there are other threads. The server's name has static storage.
void set_log(std::string_view server, LogFormat format);

void write_line(std::string_view level, std::string_view text,
                std::span<const LogField> fields = {});

}  // namespace weft::server
