#pragma once
// The id of this process without a system call, for what has to know on hot paths whether it is in
// a forked child. Any thread.
#include <sys/types.h>

#include <atomic>

namespace weft {

namespace detail {
extern std::atomic<pid_t> process_id;
}

// An object of one process calls this first, and keeps the result: the id that process_id() returns
// from then on, until fork() sets the child's own.
pid_t keep_process_id() noexcept;
inline pid_t process_id() noexcept {
  // relaxed: written by fork() in the child, which has one thread then.
  return detail::process_id.load(std::memory_order_relaxed);
}

}  // namespace weft
