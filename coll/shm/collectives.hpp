#pragma once
// The collectives inside a host, over a ShmTeam. Arguments as in algorithms.hpp: at least two
// members, at least one byte, no MPI_IN_PLACE. Each returns ok, peer_lost or, if the kernel refuses
// a direct copy, not_permitted.
#include <algorithm>
#include <cerrno>

#include "coll/coll.hpp"
#include "coll/plan/links.hpp"
#include "coll/shm/team.hpp"

namespace weft::coll {

// Reductions of longer elements go over messages: a piece of a bank must hold one.
inline constexpr std::size_t max_shm_element_bytes(int size) noexcept {
  return std::min<std::size_t>(4096, kBankBytes / static_cast<std::size_t>(size));
}

Status shm_barrier(ShmTeam& team);
Status shm_bcast(ShmTeam& team, void* data, std::size_t bytes, int root);
// `receive` may be `input`.
Status shm_reduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                  const Reduction& op, int root);
Status shm_allreduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                     const Reduction& op);
// `receive` and `input` do not overlap.
Status shm_reduce_scatter(ShmTeam& team, const void* input, void* receive,
                          const std::size_t* counts, const Reduction& op);
Status shm_scan(ShmTeam& team, const void* input, void* receive, std::size_t count,
                const Reduction& op, bool exclusive);
// The root's own block is at its position (gather) or stays in `send` (scatter).
Status shm_gather(ShmTeam& team, const void* send, void* receive, std::size_t bytes, int root);
Status shm_scatter(ShmTeam& team, const void* send, void* receive, std::size_t bytes, int root);
// `send` is null if this member's block is at its position already.
Status shm_allgather(ShmTeam& team, const void* send, void* receive, std::size_t bytes);
Status shm_alltoall(ShmTeam& team, const void* send, void* receive, std::size_t bytes);

// The same along the team's tree (tree.cpp), for teams that have one: lengths of at most a bank.
Status tree_barrier(ShmTeam& team);
Status tree_reduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                   const Reduction& op, int root);
Status tree_allreduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                      const Reduction& op);

// The same with one copy, by the kernel, straight between the users' buffers (direct.cpp). They
// need one more wait, until the readers are done, so they are for long blocks only.
Status direct_bcast(ShmTeam& team, void* data, std::size_t bytes, int root);
// Only for two members.
Status direct_gather(ShmTeam& team, const void* send, void* receive, std::size_t bytes, int root);
Status direct_scatter(ShmTeam& team, const void* send, void* receive, std::size_t bytes, int root);
Status direct_allgather(ShmTeam& team, const void* send, void* receive, std::size_t bytes);
Status direct_alltoall(ShmTeam& team, const void* send, void* receive, std::size_t bytes);
// Only for a pair (direct_reduce.cpp).
Status direct_reduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                     const Reduction& op, int root);
Status direct_allreduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                        const Reduction& op);
Status direct_reduce_scatter(ShmTeam& team, const void* input, void* receive,
                             const std::size_t* counts, const Reduction& op);

// The code for the kernel's refusal of the last copy.
inline Code copy_failure() noexcept {
  return errno == ESRCH ? Code::peer_lost : Code::not_permitted;
}

// The memory of a member's data in a round: short data are in the cell, next to the round's number.
inline std::byte* slot(ShmTeam& team, int member, std::size_t bytes) noexcept {
  return bytes <= kCellBytes ? team.cell(member).data : team.bank(member);
}

// This member's slot of a round while it is written. cell == nullptr: a member is lost.
struct Own {
  Own(ShmTeam& team, std::size_t bytes, int reader = ShmTeam::kEverybody)
      : cell(team.open_cell(reader)) {
    if (cell == nullptr) return;
    data = bytes <= kCellBytes ? cell->data : team.open_bank(reader);
    if (data == nullptr) cell = nullptr;
  }
  Cell* cell;
  std::byte* data = nullptr;
};

}  // namespace weft::coll
