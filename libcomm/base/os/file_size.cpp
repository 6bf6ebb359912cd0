#include "base/os/file_size.hpp"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

namespace weft {

bool is_file_size_allowed(std::size_t bytes) noexcept {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur;
}

bool size_file(int fd, std::size_t bytes) noexcept {
  if (!is_file_size_allowed(bytes)) {
    errno = EFBIG;
    return false;
  }
  return ftruncate(fd, static_cast<off_t>(bytes)) == 0;
}

}  // namespace weft
