#include "exchange.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace weft::profile {
namespace {

// What a process tells another before the ends themselves.
struct Head {
  std::uint64_t sends = 0, receives = 0, error_ns = 0;
};

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

// The ends of messages with one peer, in order. No more than the peer has of the other kind are
// sent there, so that nobody gets more than it has logged itself.
struct Ends {
  std::vector<FarEnd> sends, receives;
};

// Collective: runs `step`, which communicates with nobody. Returns MPI_ERR_NO_MEM at all if there
// is no memory for it at one.
template <class Step>
int prepare(MPI_Comm comm, Step&& step) {
  int is_ready = 1, are_ready = 0;
  try {
    step();
  } catch (const std::bad_alloc&) {
    is_ready = 0;
  }
  const int code = PMPI_Allreduce(&is_ready, &are_ready, 1, MPI_INT, MPI_MIN, comm);
  return code != MPI_SUCCESS || are_ready != 0 ? code : MPI_ERR_NO_MEM;
}

std::vector<Ends> by_peer(std::vector<End>& ends, int size) {
  std::vector<Ends> found(index(size));
  std::ranges::stable_sort(ends, {}, &End::start_ns);
  for (const End& end : ends) {
    if (end.peer < 0 || end.peer >= size || end.kind == End::Kind::probe) continue;
    const bool is_send = end.kind == End::Kind::send;
    Ends& with = found[index(end.peer)];
    (is_send ? with.sends : with.receives)
        .push_back({end.comm, end.start_ns, end.tag, is_send ? 1u : 0u});
  }
  return found;
}

void move_some(std::vector<FarEnd>& to, std::vector<FarEnd>& from, std::uint64_t num) {
  to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(num));
  from = {};
}

}  // namespace

int exchange(MPI_Comm comm, Log log, const Comparison& began, OwnWaits& found) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  Comparison now;
  if (const int code = compare_clocks(comm, now); code != MPI_SUCCESS) return code;
  found.clock_error_ns = std::max(began.error_ns, now.error_ns);
  const auto common = [&](std::uint64_t ns) { return by_common_clock(ns, began, now); };
  for (End& end : log.ends) end.start_ns = common(end.start_ns);
  for (Call& call : log.calls) call = {common(call.begin_ns), common(call.end_ns), call.is_counted};

  std::vector<Ends> ends;
  std::vector<Head> mine, theirs;
  int code = prepare(comm, [&] {
    ends = by_peer(log.ends, size);
    mine.resize(ends.size());
    theirs.resize(ends.size());
    for (std::size_t i = 0; i < ends.size(); ++i)
      mine[i] = {ends[i].sends.size(), ends[i].receives.size(), found.clock_error_ns};
  });
  if (code == MPI_SUCCESS)
    code = PMPI_Alltoall(mine.data(), 3, MPI_UINT64_T, theirs.data(), 3, MPI_UINT64_T, comm);
  if (code != MPI_SUCCESS) return code;

  std::vector<FarEnd> out, in;
  std::vector<MPI_Count> counts;  // the same in both directions
  std::vector<MPI_Aint> places;
  code = prepare(comm, [&] {
    counts.resize(ends.size());
    places.resize(ends.size());
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const std::size_t before = out.size();
      places[i] = static_cast<MPI_Aint>(before * sizeof(FarEnd));
      move_some(out, ends[i].sends, std::min(mine[i].sends, theirs[i].receives));
      move_some(out, ends[i].receives, std::min(mine[i].receives, theirs[i].sends));
      counts[i] = static_cast<MPI_Count>((out.size() - before) * sizeof(FarEnd));
    }
    in.resize(out.size());
  });
  if (code == MPI_SUCCESS)
    code = PMPI_Alltoallv_c(out.data(), counts.data(), places.data(), MPI_BYTE, in.data(),
                            counts.data(), places.data(), MPI_BYTE, comm);
  if (code != MPI_SUCCESS) return code;

  std::vector<std::vector<FarEnd>> far(index(size));
  std::vector<std::uint64_t> least_ns(index(size));
  auto next = in.begin();
  for (std::size_t i = 0; i < far.size(); ++i) {
    const auto end =
        next + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(counts[i]) / sizeof(FarEnd));
    far[i].assign(next, end);
    next = end;
    least_ns[i] = found.clock_error_ns + theirs[i].error_ns;
  }
  found.waits = find_waits(std::move(log.ends), log.calls, far, least_ns);
  return MPI_SUCCESS;
}

}  // namespace weft::profile
