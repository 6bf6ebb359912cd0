#pragma once
// Descriptor: a file descriptor that closes itself.
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace weft {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // From now on the caller's.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Raises the soft limit of this process (ulimit -Sn) to the hard one; what the limit is then. For
// processes that need many by design, as a launcher or one with many ranks; code that uses select()
// has no place in them.
std::size_t raise_descriptor_limit() noexcept;
// Returns true if this process could open another one now.
bool has_descriptors_left() noexcept;
// The number of open descriptors of this process.
std::size_t num_open_descriptors() noexcept;

// An epoll set. Throws Error (no_memory): no descriptors are left.
Descriptor make_epoll();
// Watches for arrivals there; `data` comes with them. False: the kernel has no memory for it.
bool watch_for_input(const Descriptor& epoll, int fd, void* data = nullptr);

}  // namespace weft
