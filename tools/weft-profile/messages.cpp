#include "messages.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "counts.hpp"

namespace weft::profile {
namespace {

// A request, whose communicator may be freed before it completes.
struct Open {
  std::uint32_t end = kNone;
  // for a receive from any source, and for persistent requests
  std::shared_ptr<const Communicator> comm;
  bool is_persistent = false;
  End::Kind kind = End::Kind::send;
  int rank = 0, tag = 0;
};

struct State {
  std::mutex mutex;
  std::atomic<bool> is_on{false};
  Log log;
  std::unordered_map<MPI_Request, Open> requests;
};

State& state() {
  static State* const all = new State;
  return *all;
}

constexpr int kAnySource = -2;  // a peer that the status of the receive will tell

int peer_of(const Communicator& comm, int rank) {
  return rank == MPI_ANY_SOURCE ? kAnySource : world_rank(comm, rank);
}

// With the mutex held.
std::uint32_t add_end(End::Kind kind, const Communicator& comm, int rank, int tag,
                      std::uint64_t start_ns) {
  const int peer = peer_of(comm, rank);
  if (comm.key == 0 || peer == MPI_UNDEFINED) return kNone;
  Log& log = state().log;
  if (log.ends.size() == kMostEnds) {
    ++log.num_left_out;
    return kNone;
  }
  log.ends.push_back({comm.key, start_ns, peer, tag, kNone, kind});
  return static_cast<std::uint32_t>(log.ends.size() - 1);
}

bool is_on() noexcept { return state().is_on.load(std::memory_order_relaxed); }

}  // namespace

std::uint32_t log_end(End::Kind kind, MPI_Comm comm, int rank, int tag,
                      std::uint64_t start_ns) noexcept try {
  if (!is_on() || rank == MPI_PROC_NULL) return kNone;
  const auto found = find(comm);
  const std::lock_guard lock(state().mutex);
  return add_end(kind, *found, rank, tag, start_ns);
} catch (const std::bad_alloc&) {
  return kNone;
}

void log_request(MPI_Request request, std::uint32_t end, MPI_Comm comm) noexcept try {
  if (end == kNone) return;
  std::shared_ptr<const Communicator> found;
  const std::lock_guard lock(state().mutex);
  if (end >= state().log.ends.size()) return;  // the log has ended
  if (state().log.ends[end].peer == kAnySource) found = find_shared(comm);
  state().requests[request] = {end, std::move(found)};
} catch (const std::bad_alloc&) {
  // The end has no call.
}

void log_call(std::span<const std::uint32_t> ends, std::uint64_t begin_ns, std::uint64_t end_ns,
              bool is_counted) noexcept try {
  if (std::ranges::all_of(ends, [](std::uint32_t end) { return end == kNone; })) return;
  const std::lock_guard lock(state().mutex);
  Log& log = state().log;
  log.calls.push_back({begin_ns, end_ns, is_counted});
  for (const std::uint32_t end : ends)
    if (end < log.ends.size())
      log.ends[end].call = static_cast<std::uint32_t>(log.calls.size() - 1);
} catch (const std::bad_alloc&) {
  // The ends have no call.
}

bool find_pending(std::span<const MPI_Request> requests, Pending* pending) noexcept {
  if (!is_on()) return false;
  bool has_some = false;
  const std::lock_guard lock(state().mutex);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    pending[i] = {requests[i], kNone};
    if (requests[i] == MPI_REQUEST_NULL) continue;
    const auto at = state().requests.find(requests[i]);
    if (at == state().requests.end()) continue;
    pending[i].end = at->second.end;
    has_some = has_some || pending[i].end != kNone;
  }
  return has_some;
}

std::uint32_t complete(const Pending& pending, const MPI_Status& status) noexcept {
  if (pending.end == kNone) return kNone;
  int is_cancelled = 0;
  PMPI_Test_cancelled(&status, &is_cancelled);
  const std::lock_guard lock(state().mutex);
  if (pending.end >= state().log.ends.size()) return kNone;  // the log has ended
  End& end = state().log.ends[pending.end];
  const auto at = state().requests.find(pending.request);
  // Another thread may have got the handle for a request of its own meanwhile.
  const bool is_ours = at != state().requests.end() && at->second.end == pending.end;
  if (is_cancelled != 0) {
    end.peer = MPI_PROC_NULL;
  } else if (end.kind == End::Kind::receive) {
    if (end.peer == kAnySource)
      end.peer = is_ours && at->second.comm != nullptr
                     ? peer_of(*at->second.comm, status.MPI_SOURCE)
                     : MPI_UNDEFINED;
    end.tag = status.MPI_TAG;
  }
  if (is_ours && at->second.is_persistent)
    at->second.end = kNone;
  else if (is_ours)
    state().requests.erase(at);
  return is_cancelled != 0 ? kNone : pending.end;
}

void drop(const Pending& pending) noexcept {
  if (pending.end == kNone) return;
  const std::lock_guard lock(state().mutex);
  const auto at = state().requests.find(pending.request);
  if (at != state().requests.end() && at->second.end == pending.end) state().requests.erase(at);
}

void log_persistent(MPI_Request request, End::Kind kind, MPI_Comm comm, int rank, int tag) noexcept
    try {
  if (!is_on() || rank == MPI_PROC_NULL) return;
  const std::lock_guard lock(state().mutex);
  state().requests[request] = {kNone, find_shared(comm), true, kind, rank, tag};
} catch (const std::bad_alloc&) {
  // Not logged.
}

void log_start(MPI_Request request, std::uint64_t start_ns) noexcept try {
  if (!is_on()) return;
  const std::lock_guard lock(state().mutex);
  const auto at = state().requests.find(request);
  if (at == state().requests.end() || !at->second.is_persistent) return;
  at->second.end =
      add_end(at->second.kind, *at->second.comm, at->second.rank, at->second.tag, start_ns);
} catch (const std::bad_alloc&) {
  // Not logged.
}

void forget_request(MPI_Request request) noexcept {
  const std::lock_guard lock(state().mutex);
  state().requests.erase(request);
}

void begin_log() { state().is_on.store(true, std::memory_order_relaxed); }

Log end_log() noexcept {
  state().is_on.store(false, std::memory_order_relaxed);
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().log, {});
}

}  // namespace weft::profile
