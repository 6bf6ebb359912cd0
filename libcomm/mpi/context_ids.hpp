#pragma once
// ContextIds: the numbers that this process gives to communicators, of a range of its own. A number
// is used again as late as can be, and never while what has it still exists here: whoever gives a
// number is a member of what gets it.
//
// Threads: any may call anything.
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_set>

namespace weft::mpi {

class ContextIds {
 public:
  // 0 to range - 1, of which the first `num_reserved` are never given.
  void open(std::uint32_t range, std::uint32_t num_reserved) {
    const std::lock_guard lock(mutex_);
    range_ = range;
    next_ = num_reserved_ = num_reserved;
    in_use_.clear();
  }
  // None: all are in use.
  std::optional<std::uint32_t> take() {
    const std::lock_guard lock(mutex_);
    if (in_use_.size() >= range_ - num_reserved_) return std::nullopt;
    for (;;) {
      if (next_ >= range_) next_ = num_reserved_;
      const std::uint32_t id = next_++;
      if (in_use_.insert(id).second) return id;
    }
  }
  // Nothing happens if it was not taken, as with those that are reserved.
  void give_back(std::uint32_t id) {
    const std::lock_guard lock(mutex_);
    in_use_.erase(id);
  }

 private:
  std::mutex mutex_;
  std::uint32_t range_ = 0;
  std::uint32_t num_reserved_ = 0;
  std::uint32_t next_ = 0;
  std::unordered_set<std::uint32_t> in_use_;
};

}  // namespace weft::mpi
