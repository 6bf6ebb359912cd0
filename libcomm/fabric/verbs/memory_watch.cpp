#include "fabric/verbs/memory_watch.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/os/thread.hpp"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace weft::verbs {
namespace {

constexpr std::uint64_t kEvents =
    UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE;
// Since 5.19: write protection, which is all we register for, on shared memory and huge pages too.
constexpr std::uint64_t kAllMemory = 1u << 12;

bool open_features(int fd, std::uint64_t features) noexcept {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  return ioctl(fd, UFFDIO_API, &api) == 0 && (api.features & features) == features;
}

}  // namespace

Status MemoryWatch::start() {
  const auto open = [] {
    return static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  };
  int fd = open();
  if (fd < 0)
    return {errno == EPERM ? Code::not_permitted : Code::unsupported,
            fmt::format("userfaultfd: {} (a seccomp profile, or a kernel before 5.11)",
                        std::strerror(errno))};
  const std::uint64_t events = kEvents | UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (!open_features(fd, events | kAllMemory)) {
    close(fd);
    fd = open();
    if (fd < 0 || !open_features(fd, events)) {
      if (fd >= 0) close(fd);
      return {Code::unsupported, "userfaultfd: this kernel does not report unmapped memory"};
    }
  }
  fd_ = fd;
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  Status status;
  if (stop_fd_ < 0)
    status = {Code::no_memory,
              fmt::format("cannot make an eventfd: {} (see ulimit -n)", std::strerror(errno))};
  else
    status = start_thread(thread_, [this] { run(); });
  // fd_ is valid only while a thread reads from it.
  if (!status) close(std::exchange(fd_, -1));
  return status;
}

MemoryWatch::~MemoryWatch() {
  if (fd_ < 0) {
    if (stop_fd_ >= 0) close(stop_fd_);
    return;
  }
  eventfd_write(stop_fd_, 1);
  thread_.join();
  close(stop_fd_);
}

bool MemoryWatch::watch(std::uintptr_t begin, std::uintptr_t end) noexcept {
  if (fd_ < 0) return false;
  uffdio_register range{};
  range.range = {begin, end - begin};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(fd_, UFFDIO_REGISTER, &range) == 0;
}

void MemoryWatch::unwatch(std::uintptr_t begin, std::uintptr_t end) noexcept {
  uffdio_range range{begin, end - begin};
  // Fails where the memory is gone already, which is as good.
  if (fd_ >= 0) (void)ioctl(fd_, UFFDIO_UNREGISTER, &range);
}

void MemoryWatch::run() noexcept {
  pollfd fds[2] = {{fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
  for (;;) {
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) break;
    const std::lock_guard lock(lock_);
    uffd_msg message;
    // The thread that changes the memory continues as soon as the event is read, and then needs the
    // lock to find out about its registration.
    while (read(fd_, &message, sizeof message) == sizeof message) {
      switch (message.event) {
        case UFFD_EVENT_REMOVE:
        case UFFD_EVENT_UNMAP:
          changed_(context_, message.arg.remove.start, message.arg.remove.end);
          break;
        case UFFD_EVENT_REMAP:
          changed_(context_, message.arg.remap.from,
                   message.arg.remap.from + message.arg.remap.len);
          changed_(context_, message.arg.remap.to, message.arg.remap.to + message.arg.remap.len);
          break;
        default:
          break;
      }
    }
    if ((fds[1].revents & POLLIN) != 0) break;
  }
  // Closing the descriptor removes all ranges: threads that change watched memory from here on are
  // neither reported nor held back. This thread does it, as the C library gives back its stack at
  // its end, which may be watched, and then nobody would read the event.
  close(fd_);
}

}  // namespace weft::verbs
