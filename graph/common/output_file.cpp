#include "output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weft::graph {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

}  // namespace

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status OutputFile::failed(const char* doing) const {
  return {errno == ENOSPC || errno == EDQUOT ? Code::no_memory : Code::not_permitted,
          path_ + ": cannot " + doing + ": " + std::strerror(errno)};
}

Status OutputFile::open() {
  struct stat found {};
  if (stat(path_.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    // A device, as /dev/null, is written to directly.
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) return failed("open it");
    block_.reserve(kBufferBytes);
    return Code::ok;
  }
  const std::size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  temporary_ = path_ + ".part-" + std::to_string(getpid());
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    descriptor_ = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    const Status status = failed("create it");
    temporary_.clear();
    return status;
  }
  block_.reserve(kBufferBytes);
  return Code::ok;
}

Status OutputFile::write(const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const std::size_t taken = std::min(bytes, kBufferBytes - block_.size());
    block_.insert(block_.end(), from, from + taken);
    from += taken;
    bytes -= taken;
    if (block_.size() < kBufferBytes) continue;
    const Status status = flush();
    if (!status.ok()) return status;
  }
  return Code::ok;
}

Status OutputFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
  const char* const from = static_cast<const char*>(data);
  for (std::size_t at = 0; at < bytes;) {
    const ssize_t done =
        ::pwrite(descriptor_, from + at, bytes - at, static_cast<off_t>(offset + at));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed("write it");
    at += static_cast<std::size_t>(done);
  }
  return Code::ok;
}

Status OutputFile::seek(std::uint64_t offset) {
  const Status status = flush();
  if (!status.ok() || lseek(descriptor_, static_cast<off_t>(offset), SEEK_SET) >= 0) return status;
  return failed("write it");
}

Status OutputFile::flush() {
  for (std::size_t at = 0; at < block_.size();) {
    const ssize_t done = ::write(descriptor_, block_.data() + at, block_.size() - at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed("write it");
    at += static_cast<std::size_t>(done);
  }
  block_.clear();
  return Code::ok;
}

Status OutputFile::sync() {
  const Status status = flush();
  if (!status.ok() || fdatasync(descriptor_) == 0 || errno == EINVAL) return status;
  return failed("write it");
}

Status OutputFile::commit() {
  Status status = flush();
  if (!status.ok() || temporary_.empty()) return status;
  struct stat found {};
  if (fstat(descriptor_, &found) != 0) return failed("stat it");
  if (found.st_nlink == 0) {
    // linkat does not replace a file: link under a temporary name, then rename.
    const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_.clear();
      return Code::ok;
    }
    unlink(temporary_.c_str());
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return failed("name it");
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failed("name it");
  temporary_.clear();
  return Code::ok;
}

}  // namespace weft::graph
