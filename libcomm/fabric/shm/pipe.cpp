#include "fabric/shm/pipe.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "fabric/fabric.hpp"
#include "fabric/shm/arena.hpp"

namespace weft::shm {
namespace {

// What all users may give a pipe, unless the machine's owner says less.
constexpr int kPipeBytes = 1 << 20;
// Pages of data that does not begin with one: one more each.
static_assert(kNumPiped * (kPipedBytes + 4096) <= kPipeBytes);

void close_at(int& fd) noexcept {
  if (fd >= 0) close(std::exchange(fd, -1));
}

}  // namespace

OwnPipe::~OwnPipe() { close_at(fd_); }

int OwnPipe::number() noexcept {
  if (std::exchange(tried_, true)) return fd_;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return -1;
  if (fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes) < kPipeBytes) {
    close(ends[0]);
  } else {
    fd_ = ends[0];
  }
  close(ends[1]);
  return fd_;
}

Code OwnPipe::take(void* to, std::size_t bytes) noexcept {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = read(fd_, static_cast<char*>(to) + done, bytes - done);
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (n == 0 || errno != EINTR) {
      const Code code = n < 0 && errno == EFAULT ? Code::bad_argument : Code::corrupt;
      close_at(fd_);  // what is left in it belongs to nobody
      return code;
    }
  }
  return Code::ok;
}

PeerPipe::~PeerPipe() { close_at(fd_); }

bool PeerPipe::open(int pid, int number) noexcept {
  close_at(fd_);
  number_ = number;
  // For reading, too: with nobody left to read, writing would be a signal's death.
  const int fd = open_of(pid, number, O_NONBLOCK | O_NOCTTY);
  struct stat found {};
  if (fd < 0 || fstat(fd, &found) != 0 || !S_ISFIFO(found.st_mode)) {
    if (fd >= 0) close(fd);
    return false;
  }
  fd_ = fd;
  return true;
}

std::size_t PeerPipe::lend(int pid, int number, const void* data, std::size_t bytes) noexcept {
  if (number != number_ && !open(pid, number)) return 0;
  if (fd_ < 0) return 0;
  std::size_t done = 0;
  while (done < bytes) {
    iovec rest{const_cast<char*>(static_cast<const char*>(data)) + done, bytes - done};
    const ssize_t n = vmsplice(fd_, &rest, 1, SPLICE_F_NONBLOCK);
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (n == 0 || errno != EINTR)
      break;
  }
  return done;
}

}  // namespace weft::shm
