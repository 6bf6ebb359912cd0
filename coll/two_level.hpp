#pragma once
// The collectives of teams that are on several hosts, of which some have several members: data
// cross between two hosts once, between the members that lead them, and inside a host go through
// its shared memory. Each is composed of calls of the two teams of Hosts, one file each.
//
// Arguments as in algorithms.hpp. Reductions keep rank order if the hosts hold the members in
// order, and are for commutative operations otherwise.
#include "coll/hosts.hpp"
#include "coll/links.hpp"

namespace weft::coll {

// What a call ended with. If a member is lost, those of this host may not know, and are told.
Status ended(Team& team, Status status);
// For a call that a loss keeps from beginning.
Status lost(Team& team);

Status two_level_barrier(Team& team);
Status two_level_bcast(Team& team, void* data, std::size_t bytes, int root);
// `receive` counts on the root only and may be `input`.
Status two_level_reduce(Team& team, const void* input, void* receive, std::size_t count,
                        const Reduction& op, int root);
// `receive` may be `input`.
Status two_level_allreduce(Team& team, const void* input, void* receive, std::size_t count,
                           const Reduction& op);
// `input` may be `receive`. Counts in elements.
Status two_level_reduce_scatter(Team& team, const void* input, void* receive,
                                const std::size_t* counts, const Reduction& op);
// The root's own block is in its place in `receive` (gather) or stays in `send` (scatter).
Status two_level_gather(Team& team, const void* send, void* receive, std::size_t bytes, int root);
Status two_level_scatter(Team& team, const void* send, void* receive, std::size_t bytes, int root);
// `receive` holds this rank's block in its place.
Status two_level_allgather(Team& team, void* receive, std::size_t bytes);
Status two_level_allgatherv(Team& team, void* receive, const std::size_t* counts,
                            const std::ptrdiff_t* displacements);
// `send` and `receive` do not overlap.
Status two_level_alltoall(Team& team, const void* send, void* receive, std::size_t bytes);

}  // namespace weft::coll
