#include "base/trace.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"

namespace weft::trace {
namespace {

// Times in the file are from this second of the epoch on: readers take them as doubles, and those
// from 1970 on would be a quarter of a microsecond apart. It is the same in all processes.
constexpr std::int64_t kFirstSecond = 1'767'225'600;  // 2026-01-01

struct Event {
  const char* what;
  std::uint64_t start_ns, ns;
};

struct Kept {
  long thread = 0;
  // The number of events present. release and acquire: together with the events. Only the owning
  // thread adds events; emptying takes the mutex.
  std::atomic<std::uint32_t> count{0};
  std::array<Event, kKept> events;
};

// Never destroyed: threads outlive the end of main.
struct File {
  std::mutex mutex;
  int fd = -1;
  pid_t process = 0;           // a forked child writes nothing
  std::int64_t offset_ns = 0;  // of the monotonic clock, to the times in the file
  std::uint64_t written = 0;
  std::vector<std::unique_ptr<Kept>> threads;
  std::vector<Kept*> left;  // by threads that have ended
};
File& file() {
  static File* const one = new File;
  return *one;
}

std::uint64_t read_clock(clockid_t clock) noexcept {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

double in_us(std::uint64_t ns) {
  return static_cast<double>(static_cast<std::int64_t>(ns) + file().offset_ns) / 1e3;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c == '"' || c == '\\')
      out.append(1, '\\').append(1, c);
    else
      out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return out;
}

// Under the mutex.
void write_out(const std::string& text) {
  File& to = file();
  if (to.fd < 0 || getpid() != to.process) return;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(to.fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  to.written += done;
  if (done == text.size() && to.written < kMostBytes) return;
  log_line(LogLevel::warn, -1, "WEFT_TRACE: {}; the rest of this run is not traced",
           done < text.size() ? strerror(errno) : "the file is full");
  detail::is_on.store(false, std::memory_order_relaxed);
  ::close(to.fd);
  to.fd = -1;
}

// Under the mutex.
void empty(Kept& kept) {
  const std::uint32_t count = kept.count.load(std::memory_order_acquire);
  std::string text;
  text.reserve(std::size_t{count} * 100);
  const pid_t process = file().process;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Event& event = kept.events[i];
    fmt::format_to(std::back_inserter(text),
                   ",\n{{\"name\":\"{}\",\"ph\":\"X\",\"ts\":{:.3f},\"dur\":{:.3f},\"pid\":{},"
                   "\"tid\":{}}}",
                   event.what, in_us(event.start_ns), static_cast<double>(event.ns) / 1e3, process,
                   kept.thread);
  }
  write_out(text);
}

// In a forked child another thread of the parent may hold the mutex for ever.
bool is_forked() { return getpid() != file().process; }

void end() {
  detail::is_on.store(false, std::memory_order_relaxed);
  if (is_forked()) return;
  const std::lock_guard lock(file().mutex);
  try {
    for (const auto& kept : file().threads) empty(*kept);
    write_out("\n]\n");
  } catch (const std::bad_alloc&) {
    // The events written before are in the file; viewers accept a missing closing bracket.
  }
  if (file().fd >= 0) ::close(std::exchange(file().fd, -1));
}

thread_local Kept* here = nullptr;
thread_local bool has_ended = false;

// Hands the events of an ending thread over to another one.
struct Leave {
  ~Leave() {
    has_ended = true;
    if (here == nullptr || is_forked()) return;
    const std::lock_guard lock(file().mutex);
    try {
      file().left.reserve(file().left.size() + 1);
      empty(*here);
      here->count.store(0, std::memory_order_relaxed);
      file().left.push_back(here);
    } catch (const std::bad_alloc&) {
      // It stays as it is until the end.
    }
    here = nullptr;
  }
};

// Null: there is no memory for it, or the thread is at its end.
Kept* kept_here() noexcept {
  if (here != nullptr || has_ended) return here;
  if (is_forked()) return nullptr;
  thread_local const Leave leave;
  try {
    const std::lock_guard lock(file().mutex);
    if (!file().left.empty()) {
      here = file().left.back();
      file().left.pop_back();
    } else {
      here = file().threads.emplace_back(std::make_unique<Kept>()).get();
    }
    here->thread = syscall(SYS_gettid);
  } catch (const std::bad_alloc&) {
    // Its calls are not shown.
  }
  return here;
}

}  // namespace

namespace detail {

std::uint64_t now_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }

void note(const char* what, std::uint64_t start_ns) noexcept {
  const std::uint64_t ns = now_ns() - start_ns;
  Kept* const kept = kept_here();
  if (kept == nullptr) return;
  std::uint32_t count = kept->count.load(std::memory_order_relaxed);
  if (count == kKept) {
    if (is_forked()) return;
    const std::lock_guard lock(file().mutex);
    try {
      empty(*kept);
    } catch (const std::bad_alloc&) {
      // These are not shown.
    }
    count = 0;
    kept->count.store(0, std::memory_order_relaxed);  // before end() may read the count
  }
  kept->events[count] = {what, start_ns, ns};
  kept->count.store(count + 1, std::memory_order_release);
}

}  // namespace detail

Status open(std::string_view path, std::int64_t number, std::string_view name) {
  File& to = file();
  const std::lock_guard lock(to.mutex);
  if (to.process != 0) return {};
  std::string whole(path);
  const std::size_t slash = whole.rfind('/');
  std::size_t dot = whole.rfind('.');
  if (dot == whole.npos || (slash != whole.npos && dot < slash)) dot = whole.size();
  whole.insert(dot, fmt::format(".{}", number));
  const int fd = ::open(whole.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    return {Code::bad_setting,
            fmt::format("WEFT_TRACE: cannot make {}: {}", whole, strerror(errno))};
  to.fd = fd;
  to.process = getpid();
  to.offset_ns = static_cast<std::int64_t>(read_clock(CLOCK_REALTIME)) -
                 kFirstSecond * 1'000'000'000 - static_cast<std::int64_t>(detail::now_ns());
  write_out(
      fmt::format("[\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":"
                  "\"{}\"}}}},\n{{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{},"
                  "\"args\":{{\"sort_index\":{}}}}}",
                  to.process, escaped(name), to.process, number));
  (void)atexit(end);
  if (to.fd >= 0) detail::is_on.store(true, std::memory_order_relaxed);
  return {};
}

void mark(const char* what, std::string_view detail_text) noexcept {
  if (!is_on()) return;
  try {
    const std::uint64_t now = detail::now_ns();
    const std::lock_guard lock(file().mutex);
    write_out(
        fmt::format(",\n{{\"name\":\"{}\",\"ph\":\"i\",\"s\":\"p\",\"ts\":{:.3f},\"pid\":{},"
                    "\"tid\":{},\"args\":"
                    "{{\"what\":\"{}\"}}}}",
                    what, in_us(now), file().process, static_cast<long>(syscall(SYS_gettid)),
                    escaped(detail_text)));
  } catch (const std::bad_alloc&) {
    // Not shown then.
  }
}

}  // namespace weft::trace
