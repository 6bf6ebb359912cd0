#include "base/wait.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>

namespace weft {

namespace {

std::uint64_t read_clock(clockid_t clock) noexcept {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

std::uint64_t now_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }
std::uint64_t coarse_now_ns() noexcept { return read_clock(CLOCK_MONOTONIC_COARSE); }

std::string text_of_time(std::uint64_t ns) {
  const std::uint64_t ms = ns / 1'000'000;
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

void futex_wait(const void* word, std::uint32_t expected, std::uint64_t timeout_us) noexcept {
  const timespec limit{static_cast<time_t>(timeout_us / 1'000'000),
                       static_cast<long>(timeout_us % 1'000'000 * 1000)};
  syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake_all(const void* word) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool heavy_fence_register() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void heavy_fence() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace weft
