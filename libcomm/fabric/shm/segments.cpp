#include "fabric/shm/segments.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>

#include <cstring>

#include "base/os/shared_memory.hpp"
#include "base/shortage.hpp"

namespace weft::fabric::shm {

Status make_segment(const char* name, std::size_t bytes, Descriptor& file, Mapping& mapping) {
  Status status = make_shared_file(name, bytes, file);
  return status ? mapping.map_file(file.get(), bytes) : status;
}

Status map_segment(const Descriptor& file, std::size_t bytes, bool is_writable, Mapping& mapping) {
  if (bytes == 0 || fixed_bytes(file.get()) < bytes)
    return {Code::corrupt, "a peer's shared memory is not what it says"};
  return mapping.map_file(file.get(), bytes, is_writable);
}

Status Segments::allocate(std::size_t bytes, void*& address) {
  Segment segment;
  if (Status status = make_segment("weft-memory", bytes, segment.file, segment.mapping); !status)
    return status;
  void* at = segment.mapping.data();
  std::lock_guard lock(mutex_);
  const Code code = or_no_memory([&] { segments_.emplace(at, std::move(segment)); });
  if (code == Code::ok) address = at;
  return code;
}

void Segments::release(void* address) {
  std::lock_guard lock(mutex_);
  segments_.erase(address);
}

Status Segments::share(const void* address, bool is_writable, int& descriptor) {
  std::lock_guard lock(mutex_);
  const auto found = segments_.find(address);
  if (found == segments_.end()) return Code::not_found;
  const int own = found->second.file.get();
  // A read-only descriptor of the same memory can only be had by opening it anew.
  descriptor = is_writable
                   ? ::fcntl(own, F_DUPFD_CLOEXEC, 0)
                   : ::open(fmt::format("/proc/self/fd/{}", own).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) return {};
  return {Code::no_memory, fmt::format("cannot share memory: {}", std::strerror(errno))};
}

}  // namespace weft::fabric::shm
