#include "launcher/processes/descendants.hpp"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "launcher/processes/process_entry.hpp"

namespace weft::weftrun {
namespace {

using Entry = ProcessEntry;

std::vector<Entry> descendants() {
  std::vector<Entry> all;
  if (!can_see_descendants()) return {};
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(opendir("/proc"), closedir);
  if (processes == nullptr) throw std::system_error(errno, std::generic_category(), "/proc");
  while (const dirent* file = readdir(processes.get()))
    if (const pid_t pid = atoi(file->d_name); pid > 0)
      if (const auto entry = read_process_entry(pid)) all.push_back(*entry);

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
  const auto now = read_process_entry(entry.pid);
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
