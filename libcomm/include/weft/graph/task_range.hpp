#pragma once
// TaskRange: the tasks of a round, numbered from 0, that are still to be given out: [front, back).
// The owner's threads take from the front, other ranks from the back, both with one fetch_add.
//
// The RGraph paper has a counter for each end. Two counters can cross: an owner that has read the
// back, and a thief that has read the front, may each then move theirs, and both have the tasks
// between. Here both ends are halves of one word. An atomic operation moves one end and returns
// both as they were in the same instant, so all claims of a round have an order, and each takes
// exactly the tasks between the ends that those before it left: from the front [front, min(front +
// n, back)), from the back [max(front, back - n), back). Claimed tasks lie outside the ends from
// then on, so no task is taken twice; and the ends meet only when all are taken, so none is missed.
// After that they cross, which claims see as nothing left.
//
// The back half counts signed, as late claims may move it below 0; the front never reaches the back
// half, as there are fewer than 2^31 tasks and a claimer stops at the first claim that gives
// nothing.
#include <algorithm>
#include <cstdint>

#include "weft/export.hpp"

namespace weft::graph {

struct TaskClaim {
  std::uint32_t begin = 0, end = 0;  // tasks; none if they are the same
};

class TaskRange {
 public:
  static constexpr std::uint32_t kMaxTasks = 0x7fffffff - (1u << 24);

  // All tasks of a round, as the word that its owner stores.
  static constexpr std::uint64_t open(std::uint32_t num_tasks) noexcept {
    return std::uint64_t{num_tasks} << 32;
  }
  // The value that a claim adds to the word.
  static constexpr std::uint64_t from_front(std::uint32_t count) noexcept { return count; }
  static constexpr std::uint64_t from_back(std::uint32_t count) noexcept {
    return std::uint64_t{0} - (std::uint64_t{count} << 32);
  }
  static constexpr std::uint32_t num_left(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(std::max<std::int64_t>(0, back(word) - front(word)));
  }
  // The tasks of a claim that found this word.
  static constexpr TaskClaim took_front(std::uint64_t found, std::uint32_t count) noexcept {
    return claim(front(found), std::min(front(found) + count, back(found)));
  }
  static constexpr TaskClaim took_back(std::uint64_t found, std::uint32_t count) noexcept {
    return claim(std::max(front(found), back(found) - count), back(found));
  }

 private:
  static constexpr std::int64_t front(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word);
  }
  static constexpr std::int64_t back(std::uint64_t word) noexcept {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(word >> 32));
  }
  static constexpr TaskClaim claim(std::int64_t begin, std::int64_t end) noexcept {
    if (begin >= end) return {};
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
  }
};

}  // namespace weft::graph
