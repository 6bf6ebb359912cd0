#include "base/os/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/os/file_size.hpp"

namespace weft {

Status make_shared_file(const char* name, std::size_t bytes, Descriptor& file) {
  const auto failed = [&](const char* what, const char* hint) {
    return Status{Code::no_memory, fmt::format("cannot {} shared memory of {} bytes: {} ({})", what,
                                               bytes, std::strerror(errno), hint)};
  };
  Descriptor made(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made)
    return failed("create", "does a seccomp profile refuse memfd_create, or is ulimit -n too low?");
  // Nobody of another user makes a read-only descriptor writable by opening it anew.
  if (fchmod(made.get(), 0600) != 0 || !size_file(made.get(), bytes) ||
      fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failed("size", "see ulimit -f");
  file = std::move(made);
  return {};
}

std::size_t fixed_bytes(int fd) noexcept {
  struct stat info {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &info) != 0 || info.st_size < 0)
    return 0;
  return static_cast<std::size_t>(info.st_size);
}

int open_of(int pid, int fd, int more) noexcept {
  char path[64];
  *fmt::format_to_n(path, sizeof path - 1, "/proc/{}/fd/{}", pid, fd).out = '\0';
  const int opened = ::open(path, O_RDWR | O_CLOEXEC | more);
  // Without /proc, as after chroot, the error shows nothing about the process.
  if (opened < 0 && errno == ENOENT && access("/proc/self/fd", F_OK) != 0) errno = EACCES;
  return opened;
}

bool is_ending(int pid) noexcept {
  char text[512];
  *fmt::format_to_n(text, sizeof text - 1, "/proc/{}/stat", pid).out = '\0';
  const Descriptor file(::open(text, O_RDONLY | O_CLOEXEC));
  if (!file) return errno == ENOENT && access("/proc/self/stat", F_OK) == 0;
  const ssize_t length = ::read(file.get(), text, sizeof text - 1);
  if (length <= 0) return true;  // gone since
  text[length] = '\0';
  // Behind the name, which may have any bytes: state, six numbers, and the flags of the task.
  const char* rest = std::strrchr(text, ')');
  char state = '?';
  unsigned flags = 0;
  if (rest == nullptr || std::sscanf(rest, ") %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
    return false;
  constexpr unsigned kExiting = 0x4;  // the kernel's PF_EXITING
  return state == 'Z' || state == 'X' || (flags & kExiting) != 0;
}

}  // namespace weft
