// Reading a range of a file. For data that the kernel has in memory most of a read's time is the
// copy, which one processor does at 5 to 17 GB a second, by the file system's pages: a long read is
// split over several threads, where this host has more processors for the job than processes of it.
// The time of the first part decides. Writing does not gain: the kernel lets one thread at a time
// write to a file.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <vector>

#include "base/wait.hpp"
#include "mpi/file/access.hpp"
#include "mpi/file/threads.hpp"

namespace weft::mpi {
namespace {

constexpr std::uint64_t kLongBytes = std::uint64_t{512} << 10;
// The remaining read must take this long to be worth waking other threads, which costs some 20 us.
constexpr std::uint64_t kLongNs = 100'000;
constexpr std::uint64_t kPartBytes = std::uint64_t{128} << 10;
constexpr std::uint64_t kMostParts = 64;
constexpr int kMostThreads = 4;

// Reads until all bytes are there or the file ends. Returns errno, or 0.
int read_whole(int descriptor, std::byte* to, std::uint64_t bytes, std::int64_t place,
               std::uint64_t& done, int flags = 0) noexcept {
  for (done = 0; done < bytes;) {
    const iovec rest{to + done, bytes - done};
    const ssize_t got =
        ::preadv2(descriptor, &rest, 1, place + static_cast<std::int64_t>(done), flags);
    if (got == 0) break;
    if (got > 0)
      done += static_cast<std::uint64_t>(got);
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

// One read in parts, which threads take in order. A thread that comes when no part is left has
// nothing to do, so no thread waits for one that has not begun.
class SharedRead {
 public:
  SharedRead(int descriptor, std::byte* to, std::uint64_t bytes, std::int64_t place)
      : descriptor_(descriptor),
        to_(to),
        bytes_(bytes),
        place_(place),
        part_bytes_(std::max(kPartBytes, (bytes / kMostParts + 4095) / 4096 * 4096)),
        parts_((bytes + part_bytes_ - 1) / part_bytes_),
        num_left_(parts_.size()) {}

  void take_parts() noexcept {
    for (;;) {
      // relaxed: this only assigns parts to threads; num_left_ orders the parts' results.
      const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= parts_.size()) return;
      const std::uint64_t begin = i * part_bytes_;
      parts_[i].error = read_whole(descriptor_, to_ + begin, std::min(part_bytes_, bytes_ - begin),
                                   place_ + static_cast<std::int64_t>(begin), parts_[i].done);
      // release: pairs with the acquire in wait().
      if (num_left_.fetch_sub(1, std::memory_order_release) == 1) num_left_.notify_one();
    }
  }

  // Waits for the threads that are still reading.
  void wait() const noexcept {
    for (;;) {
      const std::size_t left = num_left_.load(std::memory_order_acquire);
      if (left == 0) return;
      num_left_.wait(left, std::memory_order_acquire);
    }
  }

  // The number of bytes from the beginning without a gap, and errno of the error that ended them.
  int result(std::uint64_t& done) const noexcept {
    done = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      done += parts_[i].done;
      if (parts_[i].error != 0) return parts_[i].error;
      if (parts_[i].done < std::min(part_bytes_, bytes_ - i * part_bytes_)) break;
    }
    return 0;
  }

 private:
  struct Part {
    int error = 0;
    std::uint64_t done = 0;
  };
  int descriptor_;
  std::byte* to_;
  std::uint64_t bytes_;
  std::int64_t place_;
  std::uint64_t part_bytes_;
  std::vector<Part> parts_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> num_left_;
};

// The number of threads for one process of this host.
int num_threads() {
  const Members& job = *process->job;
  return std::clamp(job.num_cpus_on_host() / std::max(1, job.num_on_host()), 1, kMostThreads);
}

int read_long(int descriptor, std::byte* to, std::uint64_t bytes, std::int64_t place,
              int num_others, std::uint64_t& done) {
  std::shared_ptr<SharedRead> read;
  try {
    read = std::make_shared<SharedRead>(descriptor, to, bytes, place);
    for (int i = 0; i < num_others; ++i) run_in_background([read] { read->take_parts(); });
  } catch (const std::bad_alloc&) {
    // Without memory this thread reads it all.
    if (read == nullptr) return read_whole(descriptor, to, bytes, place, done);
  }
  read->take_parts();
  read->wait();
  return read->result(done);
}

}  // namespace

int read_cached(int descriptor, std::byte* to, std::size_t bytes, std::int64_t place,
                std::size_t& done) noexcept {
  return read_whole(descriptor, to, bytes, place, done, RWF_NOWAIT);
}

FileError read_at(const File& file, std::byte* to, std::uint64_t bytes, std::int64_t place,
                  std::uint64_t& done) {
  const int num_others = bytes >= kLongBytes ? num_threads() - 1 : 0;
  const std::uint64_t begun = num_others > 0 ? now_ns() : 0;
  const std::uint64_t first = num_others > 0 ? kPartBytes : bytes;
  int error = read_whole(file.descriptor, to, first, place, done);
  if (error == 0 && done == first && first < bytes) {
    const std::uint64_t left = bytes - first;
    std::uint64_t more = 0;
    place += static_cast<std::int64_t>(first);
    error = (now_ns() - begun) * (left / first) > kLongNs
                ? read_long(file.descriptor, to + first, left, place, num_others, more)
                : read_whole(file.descriptor, to + first, left, place, more);
    done += more;
  }
  return error == 0 ? FileError{} : error_of_errno(error, "reading", file.name);
}

}  // namespace weft::mpi
