#include "mpi/file/uring.hpp"

#ifdef WEFT_HAVE_URING

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.hpp"
#include "base/os/thread.hpp"
#include "base/shortage.hpp"
#include "mpi/core/state.hpp"

namespace weft::mpi {
namespace {

// Reads under way at a time. A ring of so many entries always has room for their completions.
constexpr unsigned kMostReads = 128;

// The kernel completes a read in the thread that submitted it, and interrupts that thread's system
// calls for it. So a thread of the ring's own submits, and the program's threads are not disturbed.
// `posting_` guards what was posted, the mutex of Reads what has ended.
class Ring {
 public:
  Ring() noexcept = default;
  ~Ring() {
    if (thread_.joinable()) {
      signal(kEnd);
      thread_.join();
    }
    if (is_made_) io_uring_queue_exit(&ring_);
    if (event_ >= 0) ::close(event_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Returns errno, or 0.
  int make() noexcept {
    event_ = ::eventfd(0, EFD_CLOEXEC);
    if (event_ < 0) return errno;
    int result = io_uring_queue_init(kMostReads, &ring_, 0);
    if (result < 0) return -result;
    is_made_ = true;
    result = io_uring_register_eventfd(&ring_, event_);
    if (result < 0) return -result;
    const Code started =
        or_no_memory([this] { return start_thread(thread_, [this] { run(); }).code(); });
    return started == Code::ok ? 0 : EAGAIN;
  }

  // Posts a read. False: there is no room in the ring.
  bool post(RingRead& read) noexcept {
    {
      const std::lock_guard lock(posting_);
      io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
      if (entry == nullptr) return false;
      io_uring_prep_read(entry, read.descriptor, read.to + read.done,
                         static_cast<unsigned>(read.bytes - read.done),
                         static_cast<std::uint64_t>(read.place) + read.done);
      io_uring_sqe_set_data(entry, &read);
    }
    signal(kSubmit);
    return true;
  }

  // Returns a read that has ended, or null.
  RingRead* next(int& result) noexcept {
    io_uring_cqe* entry = nullptr;
    if (io_uring_peek_cqe(&ring_, &entry) != 0) return nullptr;
    auto* const read = static_cast<RingRead*>(io_uring_cqe_get_data(entry));
    result = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    return read;
  }

  // Makes the thread ring the process's doorbell when a read ends.
  void want_watch() noexcept { signal(kWatch); }

 private:
  enum Signal : std::uint32_t { kSubmit = 1, kWatch = 2, kEnd = 4 };

  void signal(std::uint32_t signals) noexcept {
    // seq_cst: either the thread sees the signals before it blocks, or this call sees it blocked.
    if (signals_.fetch_or(signals, std::memory_order_seq_cst) == 0) signals_.notify_one();
    if (!is_blocked_.load(std::memory_order_seq_cst)) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(event_, &one, sizeof one);
  }

  void run() noexcept {
    for (;;) {
      signals_.wait(0, std::memory_order_seq_cst);
      const std::uint32_t signals = signals_.exchange(0, std::memory_order_seq_cst);
      if ((signals & kSubmit) != 0) submit();
      if ((signals & kEnd) != 0) return;
      if ((signals & kWatch) != 0) watch();
    }
  }

  void submit() noexcept {
    const std::lock_guard lock(posting_);
    // Entries that the kernel does not take now, for want of memory, it takes later.
    while (io_uring_submit(&ring_) < 0 || io_uring_sq_ready(&ring_) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  // Waits for the end of a read. One that ended before, or is posted meanwhile, wakes a sleeper for
  // nothing, once.
  void watch() noexcept {
    is_blocked_.store(true, std::memory_order_seq_cst);
    std::uint64_t count;
    if (signals_.load(std::memory_order_seq_cst) == 0) {
      [[maybe_unused]] const ssize_t got = ::read(event_, &count, sizeof count);
    }
    is_blocked_.store(false, std::memory_order_seq_cst);
    engine->ring(engine->rank());
  }

  io_uring ring_{};
  bool is_made_ = false;
  int event_ = -1;  // counts ended reads
  std::mutex posting_;
  std::thread thread_;
  std::atomic<std::uint32_t> signals_{0};
  std::atomic<bool> is_blocked_{false};
};

struct Reads {
  std::mutex mutex;
  std::optional<Ring> ring;
  bool is_refused = false;
  // Written under the mutex; relaxed, as a thread that waits for a read has seen it counted.
  std::atomic<unsigned> num_under_way{0};
};
Immortal<Reads> reads;

// All functions below are called with the mutex held.
bool has_ring() noexcept {
  if (reads->is_refused || reads->ring.has_value()) return !reads->is_refused;
  reads->ring.emplace();
  if (const int error = reads->ring->make(); error != 0) {
    reads->is_refused = true;
    reads->ring.reset();
    log_line(LogLevel::info, engine->rank(), "io_uring is not available: {}; threads read files",
             std::strerror(error));
  }
  return !reads->is_refused;
}

void take(RingRead& read, int result) noexcept {
  if (result > 0) read.done += static_cast<std::size_t>(result);
  // Post the rest of a short read: only a read of no bytes is the file's end.
  if (result > 0 && read.done < read.bytes) {
    if (reads->ring->post(read)) return;
    result = -EAGAIN;
  }
  reads->num_under_way.fetch_sub(1, std::memory_order_relaxed);
  read.on_end(result >= 0);
}

}  // namespace

bool begin_ring_read(RingRead& read) noexcept {
  const std::lock_guard lock(reads->mutex);
  if (reads->num_under_way.load(std::memory_order_relaxed) == kMostReads || !has_ring() ||
      !reads->ring->post(read))
    return false;
  reads->num_under_way.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void reap_ring() noexcept {
  if (reads->num_under_way.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(reads->mutex);
  int result = 0;
  while (reads->num_under_way.load(std::memory_order_relaxed) != 0) {
    RingRead* const read = reads->ring->next(result);
    if (read == nullptr) return;
    take(*read, result);
  }
}

void watch_ring() noexcept {
  if (reads->num_under_way.load(std::memory_order_relaxed) != 0) reads->ring->want_watch();
}

void close_ring() noexcept {
  const std::lock_guard lock(reads->mutex);
  reads->ring.reset();
  reads->is_refused = false;
}

}  // namespace weft::mpi

#else

namespace weft::mpi {

bool begin_ring_read(RingRead&) noexcept { return false; }
void reap_ring() noexcept {}
void watch_ring() noexcept {}
void close_ring() noexcept {}

}  // namespace weft::mpi

#endif
