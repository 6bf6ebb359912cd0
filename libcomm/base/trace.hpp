#pragma once
// WEFT_TRACE: when each call of a process began and how long it took, as a file for ui.perfetto.dev
// and chrome://tracing: the JSON Array Format of the Trace Event Format. Calls are kept by thread
// and written when there are many, and at the end of the process.
//
// While it is off a span costs one load. Threads: anything from any thread.
//
// Tests: tests/base/trace_test.cpp.
#include <atomic>
#include <cstdint>
#include <string_view>

#include "weft/status.hpp"

namespace weft::trace {

// Spans that a thread keeps before it writes them.
inline constexpr std::uint32_t kKept = 4096;
// A file of this size gets no more events: no viewer shows it.
inline constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;

// Starts tracing. The file is called like `path`, with the process's number before the extension
// ("run.json": "run.3.json"), and is overwritten. name: of the process, in viewers. bad_setting:
// the file cannot be made. Further calls do nothing.
Status open(std::string_view path, std::int64_t number, std::string_view name);

namespace detail {
inline std::atomic<bool> is_on{false};
std::uint64_t now_ns() noexcept;
void note(const char* what, std::uint64_t start_ns) noexcept;
}  // namespace detail

// relaxed: events that see the change late are not shown.
inline bool is_on() noexcept { return detail::is_on.load(std::memory_order_relaxed); }

// A span from construction to destruction, in the constructing thread. what: lives as long as the
// process.
class Span {
 public:
  explicit Span(const char* what) noexcept
      : what_(is_on() ? what : nullptr), start_ns_(what_ == nullptr ? 0 : detail::now_ns()) {}
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    if (what_ != nullptr) [[unlikely]]
      detail::note(what_, start_ns_);
  }

 private:
  const char* const what_;
  const std::uint64_t start_ns_;
};

// Records an event of this moment, such as the loss of a peer. what: as above; detail: any text.
void mark(const char* what, std::string_view detail) noexcept;

}  // namespace weft::trace
