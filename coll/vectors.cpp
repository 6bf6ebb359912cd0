// The collectives whose blocks differ in length. In most of them only the two sides of a block know
// its length: between hosts of one member each it goes straight between the user's buffers.
#include <algorithm>
#include <vector>

#include "coll/plan/plan_run.hpp"
#include "coll/two_level/two_level.hpp"

namespace weft::coll {
namespace {

// Chooses as for blocks of one byte: no member knows the length of all. Counts the call, with this
// member's bytes.
bool goes_by_leaders(Team& team, Collective collective, std::size_t bytes) {
  const bool by_leaders =
      team.hosts() != nullptr && algorithm_for(team, collective, 1) == Algorithm::two_level;
  team.counts().add(collective, by_leaders ? Algorithm::two_level : Algorithm::linear, bytes);
  return by_leaders;
}

}  // namespace

Status gatherv(Team& team, const void* send, std::size_t send_bytes, void* receive,
               const std::size_t* counts, const std::ptrdiff_t* displacements, int root) {
  if (team.rank() == root && send != nullptr)
    copy_bytes(at(receive, displacements[root]), send, std::min(send_bytes, counts[root]));
  if (team.size() == 1) return {};
  if (team.is_broken()) return lost(team);
  leave_to_hosts(team);
  if (goes_by_leaders(team, Collective::gather, send_bytes))
    return ended(team,
                 two_level_gatherv(team, send, send_bytes, receive, counts, displacements, root));
  return run_steps(
      team, Collective::gather, {send, receive}, nullptr, [&](Plan& plan, const Group& group) {
        gatherv_linear(plan, group, kInput, send_bytes, kOutput, counts, displacements, root);
      });
}

Status scatterv(Team& team, const void* send, const std::size_t* counts,
                const std::ptrdiff_t* displacements, void* receive, std::size_t receive_bytes,
                int root) {
  if (team.rank() == root && receive != nullptr)
    copy_bytes(receive, at(send, displacements[root]), std::min(receive_bytes, counts[root]));
  if (team.size() == 1) return {};
  if (team.is_broken()) return lost(team);
  leave_to_hosts(team);
  if (goes_by_leaders(team, Collective::scatter, receive_bytes))
    return ended(
        team, two_level_scatterv(team, send, counts, displacements, receive, receive_bytes, root));
  return run_steps(
      team, Collective::scatter, {send, receive}, nullptr, [&](Plan& plan, const Group& group) {
        scatterv_linear(plan, group, kInput, counts, displacements, kOutput, receive_bytes, root);
      });
}

Status allgatherv(Team& team, const void* send, std::size_t send_bytes, void* receive,
                  const std::size_t* counts, const std::ptrdiff_t* displacements) {
  const int n = team.size(), me = team.rank();
  if (send != nullptr)
    copy_bytes(at(receive, displacements[me]), send, std::min(send_bytes, counts[me]));
  if (n == 1) return {};
  if (team.is_broken()) return lost(team);
  leave_to_hosts(team);
  std::size_t total = 0;
  for (int r = 0; r < n; ++r) total += counts[r];
  if (total == 0) return {};
  const std::size_t each = total / index(n);
  const bool by_leaders = team.hosts() != nullptr &&
                          algorithm_for(team, Collective::allgather, each) == Algorithm::two_level;
  team.counts().add(Collective::allgather,
                    by_leaders ? Algorithm::two_level : allgatherv_algorithm(total), each);
  if (by_leaders) return ended(team, two_level_allgatherv(team, receive, counts, displacements));
  return run_steps(team, Collective::allgather, {nullptr, receive}, nullptr,
                   [&](Plan& plan, const Group& group) {
                     write_allgatherv(plan, group, kOutput, counts, displacements);
                   });
}

Status alltoallv(Team& team, const void* send, const std::size_t* send_counts,
                 const std::ptrdiff_t* send_displacements, void* receive,
                 const std::size_t* receive_counts, const std::ptrdiff_t* receive_displacements) {
  const int n = team.size();
  if (n > 1 && team.is_broken()) return lost(team);
  if (n > 1) leave_to_hosts(team);
  std::vector<std::byte> held;
  std::vector<std::ptrdiff_t> held_displacements;
  if (send == nullptr) {
    // In place: the data are packed and sent before they are overwritten.
    std::size_t total = 0;
    for (int r = 0; r < n; ++r) {
      held_displacements.push_back(static_cast<std::ptrdiff_t>(total));
      total += receive_counts[r];
    }
    held.resize(total);
    for (int r = 0; r < n; ++r)
      copy_bytes(at(held.data(), held_displacements[index(r)]),
                 at(receive, receive_displacements[r]), receive_counts[r]);
    send = held.data();
    send_counts = receive_counts;
    send_displacements = held_displacements.data();
  }
  std::size_t total = 0;
  for (int r = 0; r < n; ++r) total += send_counts[r];
  team.counts().add(Collective::alltoall, Algorithm::pairwise, total / index(n));
  return run_steps(team, Collective::alltoall, {send, receive}, nullptr,
                   [&](Plan& plan, const Group& group) {
                     alltoallv_pairwise(plan, group, kInput, send_counts, send_displacements,
                                        kOutput, receive_counts, receive_displacements);
                   });
}

}  // namespace weft::coll
