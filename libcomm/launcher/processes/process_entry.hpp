#pragma once
// What /proc/PID/stat says of a process. Any thread.
#include <sys/types.h>

#include <optional>

namespace weft::weftrun {

struct ProcessEntry {
  pid_t pid = 0;
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  int num_threads = 0;
  unsigned long long start_ticks = 0;

  // A process that only waits to be reaped. Its first thread may have ended before others.
  bool ended() const { return (state == 'Z' || state == 'X') && num_threads <= 1; }
  // By a signal, or by a debugger.
  bool is_stopped() const { return state == 'T' || state == 't'; }
};

// Nothing: there is no such process, or no /proc. Allocates no memory.
std::optional<ProcessEntry> read_process_entry(pid_t pid);

}  // namespace weft::weftrun
