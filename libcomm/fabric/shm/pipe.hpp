#pragma once
// Pipes between two processes of a host, for long messages in both directions at once. The sender
// lends its pages to the pipe (vmsplice), the receiver copies out of it: each looks up pages of its
// own only, which takes the kernel much less than finding another process's for process_vm_readv.
// The receiver makes the pipe, the sender opens it through /proc/PID/fd/FD, so nothing has a name
// in a file system. One thread at a time.
#include <cstddef>

#include "weft/status.hpp"

namespace weft::shm {

// The receiver's end.
class OwnPipe {
 public:
  OwnPipe() = default;
  ~OwnPipe();
  OwnPipe(const OwnPipe&) = delete;
  OwnPipe& operator=(const OwnPipe&) = delete;

  // Made at the first call: the file descriptor's number here, or -1 if no pipe of kPipeBytes can
  // be had (its user may have no more, see pipe(7)).
  int number() noexcept;
  bool is_tried() const noexcept { return tried_; }
  // Takes exactly this much, which the sender must have lent. bad_argument: `to` cannot be written;
  // corrupt: it has not. After either there is no pipe any more.
  Code take(void* to, std::size_t bytes) noexcept;

 private:
  int fd_ = -1;
  bool tried_ = false;
};

// The sender's end.
class PeerPipe {
 public:
  PeerPipe() = default;
  ~PeerPipe();
  PeerPipe(const PeerPipe&) = delete;
  PeerPipe& operator=(const PeerPipe&) = delete;

  // How many of the bytes the pipe has taken: less if the kernel refuses. They must not change
  // until the receiver has them.
  std::size_t lend(int pid, int number, const void* data, std::size_t bytes) noexcept;

 private:
  bool open(int pid, int number) noexcept;

  int fd_ = -1;
  int number_ = -1;
};

}  // namespace weft::shm
