#include "base/descriptor.hpp"

#include <fmt/core.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "weft/status.hpp"

namespace weft {

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
