#include "launcher/descendants.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <vector>

namespace weft::weftrun {
namespace {

struct Entry {
  pid_t pid = 0;
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  int num_threads = 0;
  unsigned long long start_ticks = 0;

  // A process that only waits to be reaped. Its first thread may have ended before others.
  bool ended() const { return (state == 'Z' || state == 'X') && num_threads <= 1; }
};

std::optional<Entry> read_entry(pid_t pid) {
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
  Entry entry;
  entry.pid = pid;
  if (rest == nullptr ||
      sscanf(
          rest + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %llu",
          &entry.state, &entry.parent, &entry.group, &entry.num_threads, &entry.start_ticks) != 5)
    return {};
  return entry;
}

std::vector<Entry> descendants() {
  std::vector<Entry> all;
  if (!can_see_descendants()) return {};
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(opendir("/proc"), closedir);
  if (processes == nullptr) throw std::system_error(errno, std::generic_category(), "/proc");
  while (const dirent* file = readdir(processes.get()))
    if (const pid_t pid = atoi(file->d_name); pid > 0)
      if (const auto entry = read_entry(pid)) all.push_back(*entry);

  std::unordered_multimap<pid_t, const Entry*> children;
  for (const Entry& entry : all) children.emplace(entry.parent, &entry);
  std::vector<Entry> found;
  const auto add_children = [&](pid_t parent) {
    const auto [begin, end] = children.equal_range(parent);
    for (auto child = begin; child != end; ++child) found.push_back(*child->second);
  };
  add_children(getpid());
  for (std::size_t i = 0; i < found.size(); ++i) add_children(found[i].pid);
  std::erase_if(found, [](const Entry& entry) { return entry.ended(); });
  return found;
}

// The number may mean another process by now, unless this process is the one to reap it.
bool send_signal(const Entry& entry, int number) {
  if (entry.parent == getpid()) return kill(entry.pid, number) == 0;
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, entry.pid, 0));
  if (fd < 0) return false;
  const auto now = read_entry(entry.pid);
  errno = ESRCH;
  const bool sent = now && now->start_ticks == entry.start_ticks &&
                    syscall(SYS_pidfd_send_signal, fd, number, nullptr, 0) == 0;
  const int error = errno;
  close(fd);
  errno = error;
  return sent;
}

}  // namespace

bool can_see_descendants() {
  char own[16] = {};
  return readlink("/proc/self", own, sizeof own - 1) > 0 && atoi(own) == getpid();
}

Signalled signal_descendants(int number, pid_t but) {
  Signalled result;
  for (const Entry& entry : descendants()) {
    if (but != 0 && entry.group == but) continue;
    if (send_signal(entry, number))
      ++result.num_reached;
    else if (errno == EPERM)
      ++result.num_refused;
  }
  return result;
}

void end_descendants() {
  while (can_see_descendants()) {
    const Signalled signalled = signal_descendants(SIGKILL);
    if (signalled.num_reached == 0 && signalled.num_refused > 0) return;
    // The end of one makes its children this process's, to be found by the next scan.
    if (waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
  }
}

}  // namespace weft::weftrun
