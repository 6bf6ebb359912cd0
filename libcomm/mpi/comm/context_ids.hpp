#pragma once
// ContextIds: the numbers that this process gives to communicators, of a range of its own. A number
// is reused as late as possible, and never while its communicator still exists here: the process
// that gives a number is a member of the communicator that gets it. A communicator with several
// channels gets a block of kNumChannels numbers.
//
// Threads: any thread may call any function.
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "mpi/comm/channels.hpp"
#include "peer/handshake.hpp"
#include "tagged/engine.hpp"

namespace weft::mpi {

// The bit of a context whose communicator has members of several jobs: no range could belong to one
// process alone. The other bits are random.
using tagged::kAcrossJobs;
using tagged::kThreadContext;

// The contexts across jobs that communicators of this process have, and the processes that may send
// in them.
class ContextsAcross {
 public:
  // Draws a context that no communicator of this process has. It is not taken yet.
  std::uint32_t draw() {
    const std::lock_guard lock(mutex_);
    for (;;) {
      const auto random = static_cast<std::uint32_t>(peer::random_word());
      const std::uint32_t context = kAcrossJobs | (random & ~std::uint32_t{1});
      if (!in_use_.contains(context) && !in_use_.contains(context + 1)) return context;
    }
  }
  // Takes a context. The numbers must last until give_back().
  void take(std::uint32_t context, std::span<const int> senders) {
    const std::lock_guard lock(mutex_);
    in_use_.emplace(context, senders);
  }
  void give_back(std::uint32_t context, std::span<const int> senders) {
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = in_use_.equal_range(context);
    for (auto one = begin; one != end; ++one)
      if (one->second.data() == senders.data()) {
        in_use_.erase(one);
        return;
      }
  }
  std::span<const int> senders(std::uint32_t context) {
    const std::lock_guard lock(mutex_);
    const auto found = in_use_.find(context);
    return found == in_use_.end() ? std::span<const int>() : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_multimap<std::uint32_t, std::span<const int>> in_use_;
};

class ContextIds {
 public:
  // Starts with the ids 0 to range - 1, of which the first `num_reserved` are never given. Blocks
  // begin where `origin` plus the id is a multiple of their size.
  void open(std::uint32_t range, std::uint32_t num_reserved, std::uint32_t origin) {
    const std::lock_guard lock(mutex_);
    range_ = range;
    next_ = num_reserved_ = num_reserved;
    origin_ = origin;
    in_use_.clear();
    blocks_.clear();
  }
  // Takes an id. None: all are in use.
  std::optional<std::uint32_t> take() {
    const std::lock_guard lock(mutex_);
    if (in_use_.size() >= range_ - num_reserved_) return std::nullopt;
    for (;;) {
      if (next_ >= range_) next_ = num_reserved_;
      const std::uint32_t id = next_++;
      if (in_use_.insert(id).second) return id;
    }
  }
  // Takes a block, and returns its first id. None: no block is free.
  std::optional<std::uint32_t> take_block() {
    const std::lock_guard lock(mutex_);
    std::uint32_t id = next_;
    for (std::uint32_t tries = 0; tries <= range_ / kNumChannels + 1; ++tries) {
      id += (0 - origin_ - id) % kNumChannels;
      if (id >= range_ || range_ - id < kNumChannels) {
        id = num_reserved_;
        continue;
      }
      if (is_free_block(id)) {
        blocks_.insert(id);
        for (std::uint32_t i = 0; i < kNumChannels; ++i) in_use_.insert(id + i);
        next_ = id + kNumChannels;
        return id;
      }
      id += kNumChannels;
    }
    return std::nullopt;
  }
  // Gives an id back, or the block that begins with it. Ids that were not taken, such as the
  // reserved ones, are ignored.
  void give_back(std::uint32_t id) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t num = blocks_.erase(id) != 0 ? kNumChannels : 1;
    for (std::uint32_t i = 0; i < num; ++i) in_use_.erase(id + i);
  }

 private:
  bool is_free_block(std::uint32_t id) const {
    for (std::uint32_t i = 0; i < kNumChannels; ++i)
      if (in_use_.contains(id + i)) return false;
    return true;
  }

  std::mutex mutex_;
  std::uint32_t range_ = 0;
  std::uint32_t origin_ = 0;
  std::uint32_t num_reserved_ = 0;
  std::uint32_t next_ = 0;
  std::unordered_set<std::uint32_t> in_use_;
  std::unordered_set<std::uint32_t> blocks_;  // their first ids
};

}  // namespace weft::mpi
