#include "mpi/file_uring.hpp"

#ifdef WEFT_HAVE_URING

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.hpp"
#include "base/shortage.hpp"
#include "base/thread.hpp"
#include "mpi/state.hpp"

namespace weft::mpi {
namespace {

// Reads under way at a time. A ring of so many entries never has more to tell than it has room for.
constexpr unsigned kMostReads = 128;

// Calls of liburing are made with the mutex of Reads held.
class Ring {
 public:
  Ring() noexcept = default;
  ~Ring() {
    if (thread_.joinable()) {
      ends_.store(true, std::memory_order_relaxed);
      want_watch();
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t put = ::write(event_, &one, sizeof one);
      thread_.join();
    }
    if (is_made_) io_uring_queue_exit(&ring_);
    if (event_ >= 0) ::close(event_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Gives errno.
  int make() noexcept {
    event_ = ::eventfd(0, EFD_CLOEXEC);
    if (event_ < 0) return errno;
    int result = io_uring_queue_init(kMostReads, &ring_, 0);
    if (result < 0) return -result;
    is_made_ = true;
    result = io_uring_register_eventfd(&ring_, event_);
    if (result < 0) return -result;
    const Code started =
        or_no_memory([this] { return start_thread(thread_, [this] { watch(); }).code(); });
    return started == Code::ok ? 0 : EAGAIN;
  }

  // False: it is not in the ring.
  bool post(RingRead& read) noexcept {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return false;
    io_uring_prep_read(entry, read.descriptor, read.to + read.done,
                       static_cast<unsigned>(read.bytes - read.done),
                       static_cast<std::uint64_t>(read.place) + read.done);
    io_uring_sqe_set_data(entry, &read);
    io_uring_submit(&ring_);
    if (io_uring_sq_ready(&ring_) == 0) return true;
    // The kernel has not taken it (no memory). It cannot be withdrawn, and becomes one that does
    // nothing.
    io_uring_prep_nop(entry);
    io_uring_sqe_set_data(entry, nullptr);
    return false;
  }

  // Null: none has ended.
  RingRead* next(int& result) noexcept {
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      auto* const read = static_cast<RingRead*>(io_uring_cqe_get_data(entry));
      result = entry->res;
      io_uring_cqe_seen(&ring_, entry);
      if (read != nullptr) return read;
    }
    return nullptr;
  }

  // Not under the mutex. Pairs with the exchange in watch(): whoever finds it wanted already is
  // rung for after that.
  void want_watch() noexcept {
    if (is_wanted_.exchange(1, std::memory_order_acq_rel) == 0) is_wanted_.notify_one();
  }

 private:
  // What ended before it was wanted is told again: that wakes a sleeper for nothing, once.
  void watch() noexcept {
    while (!ends_.load(std::memory_order_relaxed)) {
      is_wanted_.wait(0, std::memory_order_acquire);
      std::uint64_t count;
      if (::read(event_, &count, sizeof count) < 0) continue;
      is_wanted_.exchange(0, std::memory_order_acq_rel);  // pairs with the one in want_watch()
      engine->ring(engine->rank());
    }
  }

  io_uring ring_{};
  bool is_made_ = false;
  int event_ = -1;  // counts what has ended
  std::thread thread_;
  std::atomic<std::uint32_t> is_wanted_{0};
  std::atomic<bool> ends_{false};
};

struct Reads {
  std::mutex mutex;
  std::optional<Ring> ring;
  bool is_refused = false;
  // Written under the mutex; relaxed, as whoever waits for a read has seen it counted.
  std::atomic<unsigned> num_under_way{0};
};
Immortal<Reads> reads;

// Under the mutex, in all below.
bool has_ring() noexcept {
  if (reads->is_refused || reads->ring.has_value()) return !reads->is_refused;
  reads->ring.emplace();
  if (const int error = reads->ring->make(); error != 0) {
    reads->is_refused = true;
    reads->ring.reset();
    log_line(LogLevel::info, engine->rank(), "io_uring is not to be had: {}; threads read files",
             std::strerror(error));
  }
  return !reads->is_refused;
}

void take(RingRead& read, int result) noexcept {
  if (result > 0) read.done += static_cast<std::size_t>(result);
  // The rest of a read that was short: only one of nothing is the file's end.
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
