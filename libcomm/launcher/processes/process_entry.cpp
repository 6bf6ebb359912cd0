#include "launcher/processes/process_entry.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

namespace weft::weftrun {

std::optional<ProcessEntry> read_process_entry(pid_t pid) {
  char path[32] = {}, text[1024];
  *fmt::format_to_n(path, sizeof path - 1, "/proc/{}/stat", pid).out = '\0';
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return {};
  text[length] = '\0';
  // The name in parentheses may hold anything.
  const char* rest = strrchr(text, ')');
  ProcessEntry entry;
  entry.pid = pid;
  if (rest == nullptr ||
      sscanf(
          rest + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %llu",
          &entry.state, &entry.parent, &entry.group, &entry.num_threads, &entry.start_ticks) != 5)
    return {};
  return entry;
}

}  // namespace weft::weftrun
