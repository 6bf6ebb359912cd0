#include "fabric/listeners.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace weft::fabric {
namespace {

struct Listener {
  std::atomic<const void*> owner{nullptr};
  std::atomic<int> fd{-1};
};
std::array<Listener, 64> listeners;

// In the child of a fork. The number stays in use, as the child's libfabric may close it once more.
void leave_to_parent() noexcept {
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0) return;
  for (const Listener& one : listeners)
    if (const int fd = one.fd.load(); fd >= 0) (void)dup3(nothing, fd, O_CLOEXEC);
  close(nothing);
}

// libfabric leaves its descriptors to programs, and does not tell them.
int find_listener(std::string_view address) noexcept {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return -1;
  int found = -1;
  while (const dirent* entry = readdir(folder)) {
    const int fd = atoi(entry->d_name);  // "." and "..": 0, which does not listen
    int listens = 0;
    socklen_t length = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) continue;
    sockaddr_storage own{};
    length = sizeof own;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        length <= address.size() && std::memcmp(&own, address.data(), length) == 0)
      found = fd;
  }
  closedir(folder);
  return found;
}

}  // namespace

void keep_listener(const void* owner, int fd) noexcept {
  static const bool is_ready = pthread_atfork(nullptr, nullptr, leave_to_parent) == 0;
  if (fd < 0) return;
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  for (Listener& one : listeners) {
    const void* nobody = nullptr;
    if (!is_ready || !one.owner.compare_exchange_strong(nobody, owner)) continue;
    one.fd = fd;
    return;
  }
}

void keep_listener(const void* owner, std::string_view address) noexcept {
  keep_listener(owner, find_listener(address));
}

void forget_listener(const void* owner) noexcept {
  for (Listener& one : listeners) {
    if (one.owner.load() != owner) continue;
    one.fd = -1;
    one.owner = nullptr;
  }
}

}  // namespace weft::fabric
