#include "mcast/copy/partial.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace weft::copy {

std::string partial_name(const std::string& name) {
  const BlockDigest digest = block_digest(std::as_bytes(std::span(name)));
  return ".weft-copy-part-" + to_hex(digest);
}

int open_partial(int folder, const std::string& name, bool makes) {
  const auto is_own = [](int file) {
    struct stat there;
    return ::fstat(file, &there) == 0 && S_ISREG(there.st_mode) && there.st_nlink == 1 &&
           there.st_uid == ::geteuid();
  };
  // O_NONBLOCK: opening a pipe without a writer would block.
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int file = ::openat(folder, name.c_str(), kFlags);
  if (file >= 0 && !is_own(file)) {
    ::close(file);
    file = -1;
    errno = ELOOP;
  }
  if (file < 0 && makes) {
    if (errno != ENOENT) ::unlinkat(folder, name.c_str(), 0);
    file = ::openat(folder, name.c_str(), kFlags | O_CREAT | O_EXCL, 0600);
  }
  if (file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) != 0) {
    ::close(file);
    return -1;
  }
  return file;
}

std::vector<BlockDigest> block_digests(int file, std::uint64_t size) {
  std::vector<BlockDigest> digests;
  std::vector<std::byte> block(kResumeBlockBytes);
  for (std::uint64_t at = 0; at < size; at += kResumeBlockBytes) {
    const std::size_t length = std::min<std::uint64_t>(kResumeBlockBytes, size - at);
    const bool is_there = read_range(file, at, std::span(block).first(length));
    if (!is_there) break;
    digests.push_back(block_digest(std::span(block).first(length)));
  }
  return digests;
}

bool clear_range(int file, std::uint64_t offset, std::uint64_t length) {
  if (::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(length)) == 0)
    return true;
  const std::vector<std::byte> zeros(std::min<std::uint64_t>(length, 1 << 20));
  while (length > 0) {
    const ssize_t written =
        ::pwrite(file, zeros.data(), std::min<std::uint64_t>(length, zeros.size()),
                 static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    offset += static_cast<std::uint64_t>(written);
    length -= static_cast<std::uint64_t>(written);
  }
  return true;
}

}  // namespace weft::copy
