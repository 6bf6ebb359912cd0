#pragma once
// Watcher: a thread that waits for remote fabrics when no other thread does. While the process
// sleeps on a doorbell it waits for the fabrics' descriptors and rings the doorbell, so that peers
// of this host and of others can be waited for together; while the process computes for long it
// polls the fabrics now and then, so that connections, one-sided access and signs of life are
// answered. In silence it sleeps.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/os/descriptor.hpp"
#include "weft/status.hpp"

namespace weft {

namespace transport {
class RemoteLanes;
}

class Watcher {
 public:
  // no_memory if there are no descriptors or threads left.
  static Status start(std::unique_ptr<Watcher>& watcher);
  ~Watcher();
  // Watches one more from now on, at most kMaxFabrics; it must outlive this. One thread at a time.
  static constexpr std::size_t kMaxFabrics = 8;
  void add(transport::RemoteLanes& lanes) noexcept;

  // To be called before sleeping on a doorbell of this process, after it was armed and
  // all was polled once more. Any thread. The doorbell is rung when a fabric has something to do.
  void arm(std::atomic<std::uint32_t>& doorbell) noexcept;
  // From a fabric that keeps something back: its push() is called about 100 us later, if this
  // process does not poll before. Any thread, any lock held; a system call now and then.
  void look_soon() noexcept {
    if (soon_.load(std::memory_order_relaxed) == 0) [[unlikely]]
      wake_soon();
  }
  // Call it with every round of polling: it shows that this process polls by itself.
  void note_poll() noexcept {
    // relaxed, and not atomic as a whole: only a change of the value matters.
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

 private:
  Watcher() = default;
  std::span<transport::RemoteLanes* const> fabrics() const noexcept {
    return {fabrics_, num_fabrics_.load(std::memory_order_acquire)};
  }
  void run() noexcept;
  void watch_busy() noexcept;
  void watch_soon() noexcept;
  void wake_soon() noexcept;
  bool wait_for_fabrics(int timeout_ms) noexcept;
  void ring_all() noexcept;

  transport::RemoteLanes* fabrics_[kMaxFabrics] = {};
  std::atomic<std::size_t> num_fabrics_{0};
  std::atomic<std::uint32_t> armed_{
      0};  // 1: a thread sleeps or is about to; the watcher sleeps on it
  std::atomic<std::uint32_t> stop_{0};
  std::atomic<std::uint32_t> soon_{0};  // 1: the watcher checks for entries that fabrics hold back
  std::atomic<std::uint64_t> polls_{0};
  std::mutex mutex_;  // guards doorbells_
  std::vector<std::atomic<std::uint32_t>*> doorbells_;
  Descriptor wake_fd_;  // ends a wait for the descriptors
  std::thread thread_;
};

}  // namespace weft
