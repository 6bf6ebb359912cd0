#include "base/os/descriptor.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "weft/status.hpp"

namespace weft {

std::size_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t soft = std::exchange(limit.rlim_cur, limit.rlim_max);
  if (soft != limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = soft;
  return limit.rlim_cur;
}

bool has_descriptors_left() noexcept {
  const Descriptor probe(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return probe || (errno != EMFILE && errno != ENFILE);
}

std::size_t num_open_descriptors() noexcept {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  std::size_t count = 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count - 3;  // ".", ".." and this folder
}

Descriptor make_epoll() {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (epoll) return epoll;
  throw Error({Code::no_memory,
               fmt::format("cannot make a descriptor to wait with: {}", std::strerror(errno))});
}

bool watch_for_input(const Descriptor& epoll, int fd, void* data) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = data;
  return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace weft
