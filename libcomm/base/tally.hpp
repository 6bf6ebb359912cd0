#pragma once
// Tally: how often this process did one thing in one way, and how many bytes that was for, such as
// an allreduce by an algorithm; since its start. Counted as the rows of stats.hpp are, in the same
// file and shown with them.
//
// Tests: tests/base/stats_test.cpp.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::stats {

struct alignas(64) Tally {
  std::atomic<std::uint64_t> calls{0}, bytes{0};
  char what[16] = {};
  char way[24] = {};

  // is_shared: other threads may add at the same time.
  void add(std::uint64_t num_bytes, bool is_shared) noexcept {
    if (is_shared) {
      calls.fetch_add(1, std::memory_order_relaxed);
      bytes.fetch_add(num_bytes, std::memory_order_relaxed);
      return;
    }
    calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (num_bytes != 0)
      bytes.store(bytes.load(std::memory_order_relaxed) + num_bytes, std::memory_order_relaxed);
  }
};
static_assert(sizeof(Tally) == 64);
inline constexpr std::size_t kNumTallies = 192;

// The tallies of this process, which one client names before it counts (coll/select/counts.cpp).
// Where there is no memory for them they are counted, but not shown.
std::span<Tally, kNumTallies> tallies() noexcept;

}  // namespace weft::stats
