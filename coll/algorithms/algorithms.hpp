#pragma once
// The algorithms over messages, one file each: pure functions that write the steps of one member of
// a group (plan/plan.hpp). Costs are given in alpha (a message), beta (a byte sent) and gamma (a
// byte reduced), for n members. The callers have checked the arguments and brought them into one
// form: at least two members, at least one byte (except for barriers), data in place where noted,
// so that no algorithm handles MPI_IN_PLACE.
//
// The result is valid once all messages are complete: a caller that appends steps that need it adds
// wait_all() first.
#include "coll/plan/links.hpp"
#include "coll/plan/plan.hpp"

namespace weft::coll {

// The members, numbered from `first` on.
struct Circle {
  const Group& group;
  int first = 0;
  int size() const noexcept { return group.size; }
  int me() const noexcept { return (group.rank - first + group.size) % group.size; }
  int team_rank(int place) const noexcept { return group.team_rank((place + first) % group.size); }
};

// A vector to reduce: `count` elements of `unit` bytes.
struct Vector {
  std::size_t count;
  std::size_t unit;
  std::size_t bytes() const noexcept { return count * unit; }
};

// The algorithm that the table or the settings give for this team, among those that are available
// (coll/collectives.cpp).
Algorithm algorithm_for(Team& team, Collective collective, std::size_t bytes,
                        bool commutative = true);
// coll::allgather() without switches, for those who make their groups (coll/collectives.cpp).
Status allgather_by_hosts(Team& team, const void* send, void* receive, std::size_t bytes);
// What write_allgatherv() takes for so many bytes in all.
Algorithm allgatherv_algorithm(std::size_t total) noexcept;

void barrier_dissemination(Plan& plan, const Group& group);

// Broadcasts: `data` is complete at the root before, and everywhere after.
void bcast_binomial(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root);
void bcast_scatter_allgather(Plan& plan, const Group& group, BufferRef data, std::size_t bytes,
                             int root);
void bcast_chain(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root);
void bcast_pipeline(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root);
void bcast_pipeline(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root,
                    std::size_t block_bytes);
void bcast_two_trees(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root);
void bcast_two_trees(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root,
                     std::size_t segment);
// The best segment length for data that pass over `hops` members one after the other, where a
// message costs as much as a constant number of bytes, which holds approximately on any network.
std::size_t segment_bytes(std::size_t bytes, int hops) noexcept;
// A tree in which every inner member passes segments on to `radix` members.
void bcast_tree(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root,
                int radix, std::size_t segment);

// Reductions: `input` is this member's vector and is not changed; `output` is significant at the
// root only and may be `input`. Operations that do not commute are applied in rank order.
void reduce_binomial(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                     Vector vector, bool commutative, int root);
void reduce_rabenseifner(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                         Vector vector, int root);
// Only for commutative operations.
void reduce_circulant(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                      Vector vector, int root);

// `data` holds this member's vector and takes the result.
void allreduce_recursive_doubling(Plan& plan, const Group& group, BufferRef data, Vector vector);
void allreduce_rabenseifner(Plan& plan, const Group& group, BufferRef data, Vector vector);
// Only for commutative operations.
void allreduce_circulant(Plan& plan, const Group& group, BufferRef data, Vector vector);
void allreduce_ring(Plan& plan, const Group& group, BufferRef data, Vector vector);

// `blocks` holds one block for each member; this member's is already at its position.
void allgather_circulant(Plan& plan, const Group& group, BufferRef blocks, std::size_t bytes);
void allgather_ring(Plan& plan, const Group& group, BufferRef blocks, std::size_t bytes);
// All members know all lengths, but each has displacements of its own.
void allgatherv_circulant(Plan& plan, const Group& group, BufferRef blocks,
                          const std::size_t* counts, const std::ptrdiff_t* displacements);
void allgatherv_ring(Plan& plan, const Group& group, BufferRef blocks, const std::size_t* counts,
                     const std::ptrdiff_t* displacements);

// `send` and `receive` do not overlap.
void alltoall_bruck(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                    std::size_t bytes);
void alltoall_pairwise(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                       std::size_t bytes);
void alltoallv_pairwise(Plan& plan, const Group& group, BufferRef send,
                        const std::size_t* send_counts, const std::ptrdiff_t* send_displacements,
                        BufferRef receive, const std::size_t* receive_counts,
                        const std::ptrdiff_t* receive_displacements);

// The root's own block is already at its position in `receive` (gather) or stays in `send`
// (scatter).
void gather_binomial(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                     std::size_t bytes, int root);
void gather_linear(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                   std::size_t bytes, int root);
void scatter_binomial(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                      std::size_t bytes, int root);
void scatter_linear(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                    std::size_t bytes, int root);
void gatherv_linear(Plan& plan, const Group& group, BufferRef send, std::size_t send_bytes,
                    BufferRef receive, const std::size_t* counts,
                    const std::ptrdiff_t* displacements, int root);
void scatterv_linear(Plan& plan, const Group& group, BufferRef send, const std::size_t* counts,
                     const std::ptrdiff_t* displacements, BufferRef receive,
                     std::size_t receive_bytes, int root);

// `input` may be `output`. Counts are in elements.
void reduce_scatter_binomial(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                             const std::size_t* counts, std::size_t unit);
// Only for commutative operations.
void reduce_scatter_circulant(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                              const std::size_t* counts, std::size_t unit);
void reduce_scatter_pairwise(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                             const std::size_t* counts, std::size_t unit);

// `data` holds this member's vector and takes the result; rank 0 of an exclusive scan keeps the
// contents of `data`.
void scan_recursive_doubling(Plan& plan, const Group& group, BufferRef data, Vector vector,
                             bool exclusive);
void scan_pairwise(Plan& plan, const Group& group, BufferRef data, Vector vector, bool exclusive);

// The same, by the algorithm's name (select/write_steps.cpp). An algorithm that the collective does
// not have is a programming error: the process aborts.
void write_bcast(Algorithm algorithm, Plan& plan, const Group& group, BufferRef data,
                 std::size_t bytes, int root);
void write_reduce(Algorithm algorithm, Plan& plan, const Group& group, BufferRef input,
                  BufferRef output, Vector vector, bool commutative, int root);
void write_allreduce(Algorithm algorithm, Plan& plan, const Group& group, BufferRef data,
                     Vector vector);
void write_reduce_scatter(Algorithm algorithm, Plan& plan, const Group& group, BufferRef input,
                          BufferRef output, const std::size_t* counts, std::size_t unit);
void write_gather(Algorithm algorithm, Plan& plan, const Group& group, BufferRef send,
                  BufferRef receive, std::size_t bytes, int root);
void write_scatter(Algorithm algorithm, Plan& plan, const Group& group, BufferRef send,
                   BufferRef receive, std::size_t bytes, int root);
void write_allgather(Algorithm algorithm, Plan& plan, const Group& group, BufferRef blocks,
                     std::size_t bytes);
void write_allgatherv(Plan& plan, const Group& group, BufferRef blocks, const std::size_t* counts,
                      const std::ptrdiff_t* displacements);
void write_alltoall(Algorithm algorithm, Plan& plan, const Group& group, BufferRef send,
                    BufferRef receive, std::size_t bytes);
void write_scan(Algorithm algorithm, Plan& plan, const Group& group, BufferRef data, Vector vector,
                bool exclusive);

}  // namespace weft::coll
