#pragma once
// LoadProgress: reports the progress of a step of loading to the user, once a second. Any thread.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace weft::graph {

class LoadProgress {
 public:
  using Callback = std::function<void(const char*, double)>;
  LoadProgress(const Callback& callback, bool mine, const char* what, std::uint64_t total)
      : callback_(callback), active_(mine && callback), what_(what), total_(total) {}
  void add(std::uint64_t amount) {
    const std::uint64_t done = done_.fetch_add(amount, std::memory_order_relaxed) + amount;
    if (!active_) return;
    const std::int64_t now = now_ms();
    std::int64_t last = reported_at_ms_.load(std::memory_order_relaxed);
    // One thread reports, and none waits for it.
    if (now - last < 1000 ||
        !reported_at_ms_.compare_exchange_strong(last, now, std::memory_order_relaxed))
      return;
    callback_(what_, total_ == 0
                         ? 1
                         : std::min(1.0, static_cast<double>(done) / static_cast<double>(total_)));
  }

 private:
  static std::int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  const Callback& callback_;
  bool active_;
  const char* what_;
  std::uint64_t total_;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::int64_t> reported_at_ms_{now_ms()};
};

}  // namespace weft::graph
