#include "fabric/shm/segments.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/os/descriptor.hpp"
#include "base/os/file_size.hpp"
#include "base/shortage.hpp"

namespace weft::fabric::shm {

namespace {

Status failed(const char* what) {
  return {Code::no_memory, fmt::format("{}: {}{}", what, std::strerror(errno),
                                       errno == EFBIG ? " (see ulimit -f)" : "")};
}

}  // namespace

Status make_segment(const char* name, std::size_t bytes, int& descriptor, std::byte*& at) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return failed("cannot create shared memory");
  const int fd = file.get();
  // Nobody of another user makes a read-only descriptor writable by opening it anew.
  if (::fchmod(fd, 0600) == 0 && size_file(fd, bytes) &&
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) {
      descriptor = file.release();
      at = static_cast<std::byte*>(mapped);
      return {};
    }
  }
  return failed("cannot map shared memory");
}

Status map_segment(int descriptor, std::size_t bytes, bool writable, std::byte*& at) {
  const Descriptor closes(descriptor);
  struct stat file {};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(descriptor, &file) != 0 ||
      static_cast<std::uint64_t>(file.st_size) < bytes || bytes == 0) {
    return {Code::corrupt, "a peer's shared memory is not what it says"};
  }
  void* mapped = ::mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
                        descriptor, 0);
  if (mapped == MAP_FAILED) return failed("cannot map a peer's memory");
  at = static_cast<std::byte*>(mapped);
  return {};
}

Segments::~Segments() {
  for (auto& [address, segment] : segments_) {
    ::munmap(const_cast<void*>(address), segment.bytes);
    ::close(segment.descriptor);
  }
}

Status Segments::allocate(std::size_t bytes, void*& address) {
  Segment segment{-1, bytes};
  std::byte* at = nullptr;
  if (Status status = make_segment("weft-memory", bytes, segment.descriptor, at); !status)
    return status;
  std::lock_guard lock(mutex_);
  if (or_no_memory([&] { segments_[at] = segment; }) != Code::ok) {
    ::munmap(at, bytes);
    ::close(segment.descriptor);
    return Code::no_memory;
  }
  address = at;
  return {};
}

void Segments::release(void* address) {
  std::lock_guard lock(mutex_);
  const auto found = segments_.find(address);
  if (found == segments_.end()) return;
  ::munmap(address, found->second.bytes);
  ::close(found->second.descriptor);
  segments_.erase(found);
}

Status Segments::share(const void* address, bool writable, int& descriptor) {
  std::lock_guard lock(mutex_);
  const auto found = segments_.find(address);
  if (found == segments_.end()) return Code::not_found;
  const int own = found->second.descriptor;
  if (writable) {
    descriptor = ::fcntl(own, F_DUPFD_CLOEXEC, 0);
  } else {
    // A read-only descriptor of the same memory can only be had by opening it anew.
    descriptor = ::open(fmt::format("/proc/self/fd/{}", own).c_str(), O_RDONLY | O_CLOEXEC);
  }
  return descriptor < 0 ? failed("cannot share memory") : Status{};
}

}  // namespace weft::fabric::shm
