#pragma once
// The collectives of teams that are on several hosts, of which some have several members: data
// cross between two hosts once, between their leaders, and inside a host go through its shared
// memory. Each is composed of calls of the two teams of Hosts, one file each.
//
// Arguments as in algorithms.hpp. Reductions keep rank order if the hosts hold the members in
// order, and are for commutative operations otherwise.
#include <algorithm>

#include "coll/plan/links.hpp"
#include "coll/two_level/hosts.hpp"

namespace weft::coll {

// Returns the status that a call ended with. If that is in its middle, notifies the others, which
// may wait for this member.
Status ended(Team& team, Status status);
// The status of a call that a loss keeps from beginning; notifies the others.
Status lost(Team& team);
// Where switches are wanted: has the log say, once a communicator, that they take no such calls.
void leave_to_hosts(Team& team);

// The most hosts of a chain along which data go in pieces; longer ones take too long.
inline constexpr int kChainMaxHosts = 16;

// Calls piece(first byte, elements) until all are done, or one fails.
template <class Piece>
Status in_pieces(std::size_t count, const Reduction& op, Piece&& piece) {
  // They need up to four times their length.
  const std::size_t most = std::max<std::size_t>(kMostScratchBytes / 4 / op.element_bytes, 1);
  Status status;
  for (std::size_t first = 0; first < count && status; first += most)
    status = piece(first * op.element_bytes, std::min(most, count - first));
  return status;
}

Status two_level_barrier(Team& team);
Status two_level_bcast(Team& team, void* data, std::size_t bytes, int root);
// `receive` is significant on the root only and may be `input`.
Status two_level_reduce(Team& team, const void* input, void* receive, std::size_t count,
                        const Reduction& op, int root);
// `receive` may be `input`.
Status two_level_allreduce(Team& team, const void* input, void* receive, std::size_t count,
                           const Reduction& op);
// `receive` may be `input`. For hosts that hold the members in order.
Status two_level_scan(Team& team, const void* input, void* receive, std::size_t count,
                      const Reduction& op, bool exclusive);
// `input` may be `receive`. Counts are in elements.
Status two_level_reduce_scatter(Team& team, const void* input, void* receive,
                                const std::size_t* counts, const Reduction& op);
// The root's own block is at its position in `receive` (gather) or stays in `send` (scatter).
Status two_level_gather(Team& team, const void* send, void* receive, std::size_t bytes, int root);
Status two_level_scatter(Team& team, const void* send, void* receive, std::size_t bytes, int root);
// Blocks of any length: a packet between the root and a host's leader begins with the blocks'
// lengths, by local rank. Blocks longer than this go straight between the root and their member.
inline constexpr std::size_t kMostCarriedBytes = 16 * 1024;
inline std::size_t carried(std::size_t bytes) noexcept {
  return bytes <= kMostCarriedBytes ? bytes : 0;
}
// At the root: fills hosts.counts and displacements with the packets between it and the leader of
// each other host; carried_of(member) gives the bytes carried for a member. Returns the total.
template <class Carried>
std::size_t lay_out_packets(Hosts& hosts, Carried&& carried_of) noexcept {
  std::size_t total = 0;
  for (int h = 0; h < hosts.size(); ++h) {
    std::size_t length = 0;
    if (h != hosts.mine()) {
      length = index(hosts.size(h)) * sizeof(std::size_t);
      for (int i = hosts.begin(h); i < hosts.begin(h + 1); ++i)
        length += carried_of(hosts.member(i));
    }
    hosts.counts[index(h)] = length;
    hosts.displacements[index(h)] = static_cast<std::ptrdiff_t>(total);
    total += length;
  }
  return total;
}
// The root's own block is at its position in `receive` (gatherv) or stays in `send` (scatterv).
Status two_level_gatherv(Team& team, const void* send, std::size_t send_bytes, void* receive,
                         const std::size_t* counts, const std::ptrdiff_t* displacements, int root);
Status two_level_scatterv(Team& team, const void* send, const std::size_t* counts,
                          const std::ptrdiff_t* displacements, void* receive,
                          std::size_t receive_bytes, int root);
// `receive` holds this rank's block at its position.
Status two_level_allgather(Team& team, void* receive, std::size_t bytes);
Status two_level_allgatherv(Team& team, void* receive, const std::size_t* counts,
                            const std::ptrdiff_t* displacements);
// `send` and `receive` do not overlap.
Status two_level_alltoall(Team& team, const void* send, void* receive, std::size_t bytes);

}  // namespace weft::coll
