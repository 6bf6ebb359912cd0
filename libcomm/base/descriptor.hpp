#pragma once
// Descriptor: a file descriptor that closes itself.
#include <unistd.h>

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

// An epoll set. Throws Error (no_memory): no descriptors are left.
Descriptor make_epoll();
// Watches for arrivals there; `data` comes with them. False: the kernel has no memory for it.
bool watch_for_input(const Descriptor& epoll, int fd, void* data = nullptr);

}  // namespace weft
