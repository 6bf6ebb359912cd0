#include "clock.hpp"

#include <time.h>
#include <algorithm>

namespace weft::objstore {

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t deadline_after(std::int64_t timeout_ms) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // so that nothing wraps
  return timeout_ms < 0
             ? UINT64_MAX
             : monotonic_ns() + static_cast<std::uint64_t>(std::min(timeout_ms, kMost)) * 1'000'000;
}

std::int64_t left_ms(std::int64_t timeout_ms, std::uint64_t begin_ns) {
  if (timeout_ms <= 0) return timeout_ms;
  const auto passed = static_cast<std::int64_t>((monotonic_ns() - begin_ns) / 1'000'000);
  return std::max<std::int64_t>(timeout_ms - passed, 0);
}

}  // namespace weft::objstore
