#include "base/os/mapping.hpp"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace weft {

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Status Mapping::map(std::size_t bytes) {
  return map(-1, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0);
}

Status Mapping::map_file(int fd, std::size_t bytes, bool is_writable, std::size_t offset) {
  return map(fd, bytes, is_writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, offset);
}

Status Mapping::map(int fd, std::size_t bytes, int rights, int flags, std::size_t offset) {
  void* address =
      mmap(nullptr, bytes, rights, flags | MAP_NORESERVE, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED)
    return {Code::no_memory, fmt::format("cannot map {} bytes{}: {} (see ulimit -v)", bytes,
                                         fd < 0 ? "" : " of shared memory", std::strerror(errno))};
  data_ = static_cast<std::byte*>(address);
  bytes_ = bytes;
  return {};
}

}  // namespace weft
