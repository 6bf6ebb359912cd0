#pragma once
// WEFT_TRACE: when which call of a process began and how long it took, as a file that
// ui.perfetto.dev and chrome://tracing show: the JSON Array Format of the Trace Event Format. Calls
// are kept by thread and written when there are many, and at the end of the process.
//
// While it is off a span costs one load. Threads: anything from any thread.
#include <atomic>
#include <cstdint>
#include <string_view>

#include "weft/status.hpp"

namespace weft::trace {

// Spans that a thread keeps before it writes them.
inline constexpr std::uint32_t kKept = 4096;
// A file this long gets no more: nothing shows it.
inline constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;

// From now on. The file is called like `path`, with the process's number before the extension
// ("run.json": "run.3.json"); what was in it is gone. name: of the process, in what is shown.
// bad_setting: it cannot be made. Called again it does nothing.
Status open(std::string_view path, std::int64_t number, std::string_view name);

namespace detail {
inline std::atomic<bool> is_on{false};
std::uint64_t now_ns() noexcept;
void note(const char* what, std::uint64_t start_ns) noexcept;
}  // namespace detail

// relaxed: what is seen late is not shown.
inline bool is_on() noexcept { return detail::is_on.load(std::memory_order_relaxed); }

// From its beginning to its end, in the thread that it is in. what: lives as long as the process.
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

// Something that has happened just now, such as the loss of a peer. what: as above; detail: any.
void mark(const char* what, std::string_view detail) noexcept;

}  // namespace weft::trace
