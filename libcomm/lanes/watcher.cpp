#include "lanes/watcher.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/os/thread.hpp"
#include "base/wait.hpp"
#include "lanes/channel.hpp"
#include "lanes/doorbell.hpp"
#include "lanes/linked/remote_lanes.hpp"

namespace weft {
namespace {

using transport::RemoteLanes;

// A process that has not polled for so long computes, and the watcher polls for it. Long enough to
// cost nothing, short enough for signs of life and for a peer that waits for an answer.
constexpr std::uint64_t kTickUs = 10'000;
// The interval between two checks for entries that fabrics hold back, and the number of checks
// without any until they end.
constexpr timespec kSoon{0, 100'000};
constexpr int kSoonInVain = 20;

}  // namespace

Status Watcher::start(std::unique_ptr<Watcher>& watcher) {
  std::unique_ptr<Watcher> made(new Watcher);
  made->doorbells_.reserve(kNumDoorbells);  // each is there once
  made->wake_fd_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->wake_fd_)
    return {Code::no_memory,
            fmt::format("cannot make an eventfd: {} (see ulimit -n)", std::strerror(errno))};
  if (Status status = start_thread(made->thread_, [raw = made.get()] { raw->run(); }); !status)
    return status;
  watcher = std::move(made);
  return {};
}

Watcher::~Watcher() {
  stop_.store(1, std::memory_order_seq_cst);
  armed_.store(1, std::memory_order_seq_cst);
  futex_wake_all(&armed_);
  if (wake_fd_) eventfd_write(wake_fd_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void Watcher::add(RemoteLanes& lanes) noexcept {
  const std::size_t count = num_fabrics_.load(std::memory_order_relaxed);
  fabrics_[count] = &lanes;
  // release: pairs with the acquire in fabrics().
  num_fabrics_.store(count + 1, std::memory_order_release);
  eventfd_write(wake_fd_.get(), 1);  // it may wait for the others now
}

void Watcher::arm(std::atomic<std::uint32_t>& doorbell) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::find(doorbells_.begin(), doorbells_.end(), &doorbell) == doorbells_.end())
      doorbells_.push_back(&doorbell);
  }
  if (armed_.exchange(1, std::memory_order_seq_cst) == 0) futex_wake_all(&armed_);
}

void Watcher::ring_all() noexcept {
  // First, so that a thread that arms from here on makes this one check again.
  armed_.store(0, std::memory_order_seq_cst);
  const std::lock_guard lock(mutex_);
  for (auto* doorbell : doorbells_) ring_doorbell(*doorbell);
  doorbells_.clear();
}

// True if a fabric has something to do.
bool Watcher::wait_for_fabrics(int timeout_ms) noexcept {
  pollfd fds[kMaxFabrics + 1];
  nfds_t count = 0;
  for (RemoteLanes* lanes : fabrics()) {
    if (!lanes->arm()) return true;
    fds[count++] = {lanes->wait_fd(), POLLIN, 0};
  }
  fds[count++] = {wake_fd_.get(), POLLIN, 0};
  if (::poll(fds, count, timeout_ms) <= 0) return false;
  if (eventfd_t value; fds[count - 1].revents != 0) (void)eventfd_read(wake_fd_.get(), &value);
  return std::any_of(fds, fds + count - 1, [](const pollfd& fd) { return fd.revents != 0; });
}

void Watcher::watch_busy() noexcept {
  const std::uint64_t before = polls_.load(std::memory_order_relaxed);
  futex_wait(&armed_, 0, kTickUs);
  const auto helped_out = [&] {
    return stop_.load(std::memory_order_relaxed) == 0 &&
           armed_.load(std::memory_order_relaxed) == 0 &&
           polls_.load(std::memory_order_relaxed) == before;
  };
  while (helped_out()) {
    for (RemoteLanes* lanes : fabrics()) lanes->poll();
    wait_for_fabrics(static_cast<int>(kTickUs / 1000));
  }
}

void Watcher::wake_soon() noexcept {
  if (soon_.exchange(1, std::memory_order_seq_cst) != 0) return;
  futex_wake_all(&armed_);
  eventfd_write(wake_fd_.get(), 1);
}

void Watcher::watch_soon() noexcept {
  for (int in_vain = 0; in_vain < kSoonInVain && armed_.load(std::memory_order_relaxed) == 0;) {
    nanosleep(&kSoon, nullptr);
    bool any = false;
    for (RemoteLanes* lanes : fabrics()) any |= lanes->push();
    in_vain = any ? 0 : in_vain + 1;
  }
  // First, so that a thread that holds something back from here on wakes this one again.
  soon_.store(0, std::memory_order_seq_cst);
  for (RemoteLanes* lanes : fabrics()) lanes->push();
}

void Watcher::run() noexcept {
  while (stop_.load(std::memory_order_acquire) == 0) {
    if (soon_.load(std::memory_order_seq_cst) != 0) watch_soon();
    // The sleeper wakes now and then by itself, to check its peers; no need to wait for ever.
    if (armed_.load(std::memory_order_seq_cst) == 0)
      watch_busy();
    else if (wait_for_fabrics(100))
      ring_all();
  }
}

}  // namespace weft
