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
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return {Code::no_memory,
            fmt::format("cannot map {} bytes: {} (see ulimit -v)", bytes, std::strerror(errno))};
  data_ = static_cast<std::byte*>(address);
  bytes_ = bytes;
  return {};
}

}  // namespace weft
