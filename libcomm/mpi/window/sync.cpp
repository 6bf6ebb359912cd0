// Epochs (MPI 5.0 section 12.5). Fence ends with a barrier; post and start, complete and wait are
// messages on the window's own communicator; locks are tickets in the target's WindowControl.
#include <algorithm>
#include <cstring>
#include <span>

#include "mpi/core/request.hpp"
#include "mpi/window/access.hpp"
#include "mpi/window/window.hpp"

namespace weft::mpi {
namespace {

// Tags on the window's communicator, on which programs send nothing.
constexpr std::int32_t kPostTag = 1;
constexpr std::int32_t kCompleteTag = 2;

using Access = Window::Access;

[[gnu::cold]] int raise_epoch(Window& window, const char* function, const char* problem) {
  if (is_revoked(*window.comm)) return raise_on(&window, MPIX_ERR_REVOKED, function);
  return raise_on(&window, MPI_ERR_RMA_SYNC, function, problem);
}

// Runs `change` with the window's mutex held; raises the error that it returns, if any.
template <class Change>
int change_epoch(Window& window, const char* function, Change&& change) {
  const char* problem = nullptr;
  {
    const OptionalLock lock(window.mutex);
    problem = change();
  }
  return problem == nullptr ? MPI_SUCCESS : raise_epoch(window, function, problem);
}
// At the end of a call, with the mutex held; the window may have been revoked meanwhile.
void set_access(Window& window, Access access) {
  if (window.access != Access::revoked) window.access = access;
}
// For MPI_PROC_NULL.
int do_nothing(Window& window, const char* function) {
  return is_revoked(*window.comm) ? raise_epoch(window, function, "") : MPI_SUCCESS;
}
int end_epoch_call(Window& window, Code code, const char* function) {
  // Local stores before and loads after keep their order for the processes that map the memory.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return code == Code::ok ? MPI_SUCCESS : raise_on(&window, class_of(window, code), function);
}

// Finds the ranks in the window of a group's members, sorted. False: it is no subset of the
// window's.
bool ranks_of(const Window& window, const Group& group, std::vector<int>& ranks) {
  ranks.reserve(static_cast<std::size_t>(group.size()));
  for (const int world : group.members()) {
    const int rank = window.comm->group->rank_of(world);
    if (rank == MPI_UNDEFINED) return false;
    ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  return true;
}

// Sends an empty message to each. All are tried; returns the first failure.
Code notify(Window& window, std::span<const int> ranks, std::int32_t tag) {
  Code code = Code::ok;
  for (const int rank : ranks) {
    const int world = window.world(rank);
    if (engine->try_send(world, window.comm->context, tag, nullptr, 0)) continue;
    tagged::Request request;
    engine->isend(request, world, window.comm->context, tag, nullptr, 0);
    if (const Code sent = wait_progressing(request); code == Code::ok) code = sent;
  }
  return code;
}

constexpr int kFenceModes =
    MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
constexpr int kPostModes = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT;
constexpr bool has_only(int assertion, int modes) { return (assertion & ~modes) == 0; }

int fence(MPI_Win win, int assertion, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, function);
  if (!has_only(assertion, kFenceModes)) return raise_on(window, MPI_ERR_ASSERT, function);
  if (const int code = change_epoch(
          *window, function,
          [&]() -> const char* {
            if (window->is_posted ||
                (window->access != Access::none && window->access != Access::fenced &&
                 window->access != Access::used_fence))
              return "an epoch of another kind has not ended";
            if ((assertion & MPI_MODE_NOPRECEDE) != 0 && window->access == Access::used_fence)
              return "MPI_MODE_NOPRECEDE after operations of this process";
            return nullptr;
          });
      code != MPI_SUCCESS)
    return code;
  Code code = complete_transfers(*window, -1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // With both assertions there is no epoch on either side.
  constexpr int kNone = MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
  if ((assertion & kNone) != kNone) {
    const Status status = coll::barrier(*window->comm->team);
    if (!status) code = status.code();
  }
  {
    const OptionalLock lock(window->mutex);
    set_access(*window, (assertion & MPI_MODE_NOSUCCEED) != 0 ? Access::none : Access::fenced);
  }
  return end_epoch_call(*window, code, function);
}

// Finds a window and a group of its members, for start and post.
int find_group_of(MPI_Win win, MPI_Group group, Window*& window, std::vector<int>& ranks,
                  const char* function) {
  window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, function);
  const GroupPtr members = find_group(group);
  if (members == nullptr) return raise_on(window, MPI_ERR_GROUP, function);
  if (!ranks_of(*window, *members, ranks))
    return raise_on(window, MPI_ERR_GROUP, function, "not a subset of the window's group");
  return MPI_SUCCESS;
}

int start(MPI_Win win, MPI_Group group, int assertion, const char* function) {
  Window* window = nullptr;
  std::vector<int> ranks;
  if (const int code = find_group_of(win, group, window, ranks, function); code != MPI_SUCCESS)
    return code;
  if (!has_only(assertion, MPI_MODE_NOCHECK)) return raise_on(window, MPI_ERR_ASSERT, function);
  if (const int code =
          change_epoch(*window, function,
                       [&]() -> const char* {
                         if (window->access != Access::none && window->access != Access::fenced)
                           return "an access epoch has not ended";
                         return nullptr;
                       });
      code != MPI_SUCCESS)
    return code;
  Code code = Code::ok;
  const bool unchecked = (assertion & MPI_MODE_NOCHECK) != 0;
  std::vector<int> posted;
  posted.reserve(ranks.size());
  for (const int rank : ranks) {
    if (unchecked) break;
    tagged::Request request;
    engine->irecv(request, window->world(rank), window->comm->context, kPostTag, nullptr, 0);
    const Code received = wait_progressing(request);
    if (received == Code::ok) posted.push_back(rank);
    if (code == Code::ok) code = received;
  }
  if (code == Code::ok) {
    const OptionalLock lock(window->mutex);
    set_access(*window, Access::started);
    window->started = std::move(ranks);
  } else if (!is_revoked(*window->comm)) {
    // No epoch begins; the members that have posted must not wait for its end.
    static_cast<void>(notify(*window, posted, kCompleteTag));
  }
  return end_epoch_call(*window, code, function);
}

int complete(MPI_Win win, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, function);
  std::vector<int> ranks;
  if (const int code = change_epoch(*window, function,
                                    [&]() -> const char* {
                                      if (window->access != Access::started)
                                        return "there is no epoch that MPI_Win_start has begun";
                                      ranks.swap(window->started);
                                      return nullptr;
                                    });
      code != MPI_SUCCESS)
    return code;
  Code code = complete_transfers(*window, -1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const Code notified = notify(*window, ranks, kCompleteTag);
  if (code == Code::ok) code = notified;
  {
    const OptionalLock lock(window->mutex);
    set_access(*window, Access::none);
  }
  return end_epoch_call(*window, code, function);
}

int post(MPI_Win win, MPI_Group group, int assertion, const char* function) {
  Window* window = nullptr;
  std::vector<int> ranks;
  if (const int code = find_group_of(win, group, window, ranks, function); code != MPI_SUCCESS)
    return code;
  if (!has_only(assertion, kPostModes)) return raise_on(window, MPI_ERR_ASSERT, function);
  auto completions = std::make_unique<tagged::Request[]>(ranks.size());
  if (const int code = change_epoch(*window, function,
                                    [&]() -> const char* {
                                      if (window->access == Access::revoked) return "";
                                      if (window->is_posted)
                                        return "an exposure epoch has not ended";
                                      window->is_posted = true;
                                      window->completions = std::move(completions);
                                      window->num_completions = ranks.size();
                                      return nullptr;
                                    });
      code != MPI_SUCCESS)
    return code;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    engine->irecv(window->completions[i], window->world(ranks[i]), window->comm->context,
                  kCompleteTag, nullptr, 0);
  Code code = Code::ok;
  if ((assertion & MPI_MODE_NOCHECK) == 0) code = notify(*window, ranks, kPostTag);
  return end_epoch_call(*window, code, function);
}

bool all_completed(const Window& window) {
  return std::all_of(window.completions.get(), window.completions.get() + window.num_completions,
                     [](const tagged::Request& request) { return request.is_complete(); });
}

// Ends the exposure epoch, whose messages have arrived.
int end_exposure(Window& window, const char* function) {
  Code code = Code::ok;
  for (std::size_t i = 0; i < window.num_completions; ++i)
    if (code == Code::ok) code = window.completions[i].code;
  {
    const OptionalLock lock(window.mutex);
    window.is_posted = false;
    window.completions.reset();
    window.num_completions = 0;
  }
  return end_epoch_call(window, code, function);
}

int wait_or_test(MPI_Win win, int* flag, bool waits, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, function);
  if (flag == nullptr && !waits) return raise_on(window, MPI_ERR_ARG, function, "flag is null");
  if (const int code = change_epoch(*window, function,
                                    [&]() -> const char* {
                                      if (window->access == Access::revoked) return "";
                                      if (!window->is_posted)
                                        return "there is no epoch that MPI_Win_post has begun";
                                      return nullptr;
                                    });
      code != MPI_SUCCESS)
    return code;
  if (waits) {
    wait_progressing([window] { return all_completed(*window); });
    return end_exposure(*window, function);
  }
  if (!all_completed(*window)) progress_once();
  *flag = all_completed(*window);
  return *flag != 0 ? end_exposure(*window, function) : MPI_SUCCESS;
}

int lock_one(MPI_Win win, int type, int rank, int assertion, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, function);
  if (type != MPI_LOCK_SHARED && type != MPI_LOCK_EXCLUSIVE)
    return raise_on(window, MPI_ERR_LOCKTYPE, function);
  if (!has_only(assertion, MPI_MODE_NOCHECK)) return raise_on(window, MPI_ERR_ASSERT, function);
  if (rank == MPI_PROC_NULL) return do_nothing(*window, function);
  if (rank < 0 || rank >= window->size()) return raise_on(window, MPI_ERR_RANK, function);
  const Window::Lock wanted{type == MPI_LOCK_EXCLUSIVE, (assertion & MPI_MODE_NOCHECK) == 0};
  if (const int code = change_epoch(*window, function,
                                    [&]() -> const char* {
                                      if (window->access != Access::none &&
                                          window->access != Access::fenced &&
                                          window->access != Access::locked)
                                        return "an access epoch has not ended";
                                      if (!window->locks.emplace(rank, wanted).second)
                                        return "this process has locked the target already";
                                      window->access = Access::locked;
                                      return nullptr;
                                    });
      code != MPI_SUCCESS)
    return code;
  const Code code = wanted.is_held ? lock_member(*window, rank, wanted.is_exclusive) : Code::ok;
  if (code != Code::ok) {
    const OptionalLock lock(window->mutex);
    window->locks.erase(rank);
    if (window->locks.empty()) set_access(*window, Access::none);
  }
  return end_epoch_call(*window, code, function);
}

int unlock_one(MPI_Win win, int rank, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, function);
  if (rank == MPI_PROC_NULL) return do_nothing(*window, function);
  if (rank < 0 || rank >= window->size()) return raise_on(window, MPI_ERR_RANK, function);
  Window::Lock held;
  if (const int code =
          change_epoch(*window, function,
                       [&]() -> const char* {
                         const auto found = window->locks.find(rank);
                         if (window->access != Access::locked || found == window->locks.end())
                           return "this process has not locked the target";
                         held = found->second;
                         window->locks.erase(found);
                         if (window->locks.empty()) window->access = Access::none;
                         return nullptr;
                       });
      code != MPI_SUCCESS)
    return code;
  Code code = complete_transfers(*window, rank);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (held.is_held)
    if (const Code ended = unlock_member(*window, rank, held.is_exclusive); code == Code::ok)
      code = ended;
  if (code == Code::ok) code = check_target(*window, rank);
  return end_epoch_call(*window, code, function);
}

int lock_all(MPI_Win win, int assertion, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, function);
  if (!has_only(assertion, MPI_MODE_NOCHECK)) return raise_on(window, MPI_ERR_ASSERT, function);
  const bool unchecked = (assertion & MPI_MODE_NOCHECK) != 0;
  if (const int code =
          change_epoch(*window, function,
                       [&]() -> const char* {
                         if (window->access != Access::none && window->access != Access::fenced)
                           return "an access epoch has not ended";
                         window->access = Access::locked_all;
                         return nullptr;
                       });
      code != MPI_SUCCESS)
    return code;
  Code code = Code::ok;
  int held = 0;
  for (; !unchecked && held < window->size() && code == Code::ok; ++held)
    code = lock_member(*window, held, false);
  if (code != Code::ok)
    for (int rank = 0; rank + 1 < held; ++rank)
      static_cast<void>(unlock_member(*window, rank, false));
  {
    const OptionalLock lock(window->mutex);
    window->all_unchecked = unchecked;
    if (code != Code::ok) set_access(*window, Access::none);
  }
  return end_epoch_call(*window, code, function);
}

int unlock_all(MPI_Win win, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, function);
  bool unchecked = false;
  if (const int code = change_epoch(*window, function,
                                    [&]() -> const char* {
                                      if (window->access != Access::locked_all)
                                        return "this process has not called MPI_Win_lock_all";
                                      unchecked = window->all_unchecked;
                                      return nullptr;
                                    });
      code != MPI_SUCCESS)
    return code;
  Code code = complete_transfers(*window, -1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int rank = 0; !unchecked && rank < window->size(); ++rank)
    if (const Code ended = unlock_member(*window, rank, false); code == Code::ok) code = ended;
  if (code == Code::ok) code = check_target(*window, -1);
  {
    const OptionalLock lock(window->mutex);
    set_access(*window, Access::none);
  }
  return end_epoch_call(*window, code, function);
}

// target -1: all.
int flush(MPI_Win win, int target, const char* function) {
  Window* window = find_window(win);
  if (window == nullptr) [[unlikely]]
    return raise_on(nullptr, MPI_ERR_WIN, function);
  if (target == MPI_PROC_NULL) return do_nothing(*window, function);
  if (target < -1 || target >= window->size()) return raise_on(window, MPI_ERR_RANK, function);
  if (const int code = change_epoch(*window, function,
                                    [&]() -> const char* {
                                      const bool is_passive =
                                          window->access == Access::locked_all ||
                                          (window->access == Access::locked &&
                                           (target < 0 || window->locks.contains(target)));
                                      if (!is_passive) [[unlikely]]
                                        return "outside an epoch that a lock has begun";
                                      return nullptr;
                                    });
      code != MPI_SUCCESS)
    return code;
  Code code = complete_transfers(*window, target);
  if (code == Code::ok) code = check_target(*window, target);
  return end_epoch_call(*window, code, function);
}

int flush_one(MPI_Win win, int rank, const char* function) {
  if (rank == -1) {
    Window* window = find_window(win);
    return raise_on(window, window == nullptr ? MPI_ERR_WIN : MPI_ERR_RANK, function);
  }
  return flush(win, rank, function);
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Win_fence)(int assertion, MPI_Win win) { return fence(win, assertion, __func__); }
MPI_FUNCTION(Win_start)(MPI_Group group, int assertion, MPI_Win win) {
  return start(win, group, assertion, __func__);
}
MPI_FUNCTION(Win_complete)(MPI_Win win) { return complete(win, __func__); }
MPI_FUNCTION(Win_post)(MPI_Group group, int assertion, MPI_Win win) {
  return post(win, group, assertion, __func__);
}
MPI_FUNCTION(Win_wait)(MPI_Win win) { return wait_or_test(win, nullptr, true, __func__); }
MPI_FUNCTION(Win_test)(MPI_Win win, int* flag) { return wait_or_test(win, flag, false, __func__); }
MPI_FUNCTION(Win_lock)(int lock_type, int rank, int assertion, MPI_Win win) {
  return lock_one(win, lock_type, rank, assertion, __func__);
}
MPI_FUNCTION(Win_unlock)(int rank, MPI_Win win) { return unlock_one(win, rank, __func__); }
MPI_FUNCTION(Win_lock_all)(int assertion, MPI_Win win) {
  return lock_all(win, assertion, __func__);
}
MPI_FUNCTION(Win_unlock_all)(MPI_Win win) { return unlock_all(win, __func__); }
MPI_FUNCTION(Win_flush)(int rank, MPI_Win win) { return flush_one(win, rank, __func__); }
MPI_FUNCTION(Win_flush_all)(MPI_Win win) { return flush(win, -1, __func__); }
// Local completion is remote completion: a remote put ends when the target side has done it.
MPI_FUNCTION(Win_flush_local)(int rank, MPI_Win win) { return flush_one(win, rank, __func__); }
MPI_FUNCTION(Win_flush_local_all)(MPI_Win win) { return flush(win, -1, __func__); }

MPI_FUNCTION(Win_sync)(MPI_Win win) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, __func__);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // A program may wait in a loop for what another member stores.
  static_cast<void>(check_target(*window, window->rank()));
  return do_nothing(*window, __func__);
}
