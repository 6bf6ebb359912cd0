#pragma once
// The algorithms over messages, one file each. Arguments were checked and brought into one form by
// the calls of coll.hpp: at least two members, at least one byte (barrier apart), data in place
// where noted, so that no algorithm knows MPI_IN_PLACE.
#include "coll/links.hpp"

namespace weft::coll {

// What the table or the settings say for this team, among what can be had.
Algorithm algorithm_for(Team& team, Collective collective, std::size_t bytes,
                        bool commutative = true);

Status barrier_dissemination(Team& team);

Status bcast_binomial(Team& team, void* data, std::size_t bytes, int root);
Status bcast_scatter_allgather(Team& team, void* data, std::size_t bytes, int root);
Status bcast_chain(Team& team, void* data, std::size_t bytes, int root);

// `input` is this rank's vector and is not changed; `receive` counts on the root only and may be
// `input`.
Status reduce_binomial(Team& team, const void* input, void* receive, std::size_t count,
                       const Reduction& op, int root);
Status reduce_rabenseifner(Team& team, const void* input, void* receive, std::size_t count,
                           const Reduction& op, int root);

// `data` holds this rank's vector and takes the result.
Status allreduce_recursive_doubling(Team& team, void* data, std::size_t count, const Reduction& op);
Status allreduce_rabenseifner(Team& team, void* data, std::size_t count, const Reduction& op);
// Commutative operations only.
Status allreduce_ring(Team& team, void* data, std::size_t count, const Reduction& op);

// `receive` holds this rank's block in its place.
Status allgather_recursive_doubling(Team& team, void* receive, std::size_t bytes);
Status allgather_bruck(Team& team, void* receive, std::size_t bytes);
Status allgather_ring(Team& team, void* receive, std::size_t bytes);

// `send` and `receive` do not overlap.
Status alltoall_bruck(Team& team, const void* send, void* receive, std::size_t bytes);
Status alltoall_pairwise(Team& team, const void* send, void* receive, std::size_t bytes);

// The root's own block is in its place in `receive` (gather) or stays in `send` (scatter).
Status gather_binomial(Team& team, const void* send, void* receive, std::size_t bytes, int root);
Status gather_linear(Team& team, const void* send, void* receive, std::size_t bytes, int root);
Status scatter_binomial(Team& team, const void* send, void* receive, std::size_t bytes, int root);
Status scatter_linear(Team& team, const void* send, void* receive, std::size_t bytes, int root);

// `input` may be `receive`. Counts in elements.
Status reduce_scatter_binomial(Team& team, const void* input, void* receive,
                               const std::size_t* counts, const Reduction& op);
// Commutative operations only.
Status reduce_scatter_halving(Team& team, const void* input, void* receive,
                              const std::size_t* counts, const Reduction& op);
Status reduce_scatter_pairwise(Team& team, const void* input, void* receive,
                               const std::size_t* counts, const Reduction& op);

// `data` holds this rank's vector and takes the result; rank 0 of an exclusive scan keeps what is
// in `data`.
Status scan_recursive_doubling(Team& team, void* data, std::size_t count, const Reduction& op,
                               bool exclusive);

}  // namespace weft::coll
