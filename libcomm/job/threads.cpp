// Boards for ranks that are threads of one process, over one table in memory.
#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "job/boards.hpp"

namespace weft {
namespace {

using Key = std::pair<int, std::string>;

// One fence: it ends once, with one result for all ranks at it.
struct Fence {
  bool ended = false;
  Status result;
};

// Everything is guarded by `mutex`.
struct Shared {
  explicit Shared(int n) : arrived(static_cast<std::size_t>(n)), gone(arrived) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::map<Key, std::string> pending, visible;
  std::vector<bool> arrived;  // at the fence of this epoch
  std::vector<bool> gone;     // closed, aborted or destroyed: will never arrive again
  std::shared_ptr<Fence> current = std::make_shared<Fence>();

  void end_fence(Status result) {
    current->ended = true;
    current->result = std::move(result);
    current = std::make_shared<Fence>();
    arrived.assign(arrived.size(), false);
    changed.notify_all();
  }

  std::vector<int> where(const std::vector<bool>& flags, bool value) const {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < flags.size(); ++i)
      if (flags[i] == value) ranks.push_back(static_cast<int>(i));
    return ranks;
  }
};

class ThreadBoard final : public Board {
 public:
  ThreadBoard(int rank, std::shared_ptr<Shared> shared) : rank_(rank), shared_(std::move(shared)) {}
  ~ThreadBoard() override { leave(); }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(shared_->arrived.size()); }
  std::string_view launcher() const noexcept override { return "threads"; }

  Status put(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(shared_->mutex);
    shared_->pending.insert_or_assign(Key(rank_, key), std::string(value));
    return {};
  }

  Status fence(int timeout_ms) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    Shared& shared = *shared_;
    std::unique_lock lock(shared.mutex);
    const std::shared_ptr<Fence> fence = shared.current;
    shared.arrived[static_cast<std::size_t>(rank_)] = true;
    if (shared.where(shared.arrived, false).empty()) {
      for (auto& [key, value] : shared.pending)
        shared.visible.insert_or_assign(key, std::move(value));
      shared.pending.clear();
      shared.end_fence({});
    }
    while (!fence->ended) {
      const auto gone = shared.where(shared.gone, true);
      if (!gone.empty()) {
        shared.end_fence({Code::peer_lost, name_ranks(gone) + " left the job"});
      } else if (shared.changed.wait_until(lock, deadline) == std::cv_status::timeout &&
                 !fence->ended) {
        shared.end_fence(
            {Code::timed_out,
             fmt::format("{} did not come within {} ms",
                         name_ranks(shared.where(shared.arrived, false)), timeout_ms)});
      }
    }
    return fence->result;
  }

  Status get(int rank, std::string_view key, std::string& value) override {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->visible.find(Key(rank, key));
    if (found == shared_->visible.end())
      return {Code::not_found, fmt::format("rank {} has published no \"{}\"", rank, key)};
    value = found->second;
    return {};
  }

  void abort(int, std::string_view) override { leave(); }
  Status close() override {
    leave();
    return {};
  }

 private:
  void leave() {
    const std::lock_guard lock(shared_->mutex);
    shared_->gone[static_cast<std::size_t>(rank_)] = true;
    shared_->changed.notify_all();
  }

  const int rank_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace

std::vector<std::unique_ptr<Board>> make_thread_boards(int n) {
  auto shared = std::make_shared<Shared>(n);
  std::vector<std::unique_ptr<Board>> boards;
  for (int rank = 0; rank < n; ++rank)
    boards.push_back(std::make_unique<ThreadBoard>(rank, shared));
  return boards;
}

}  // namespace weft
