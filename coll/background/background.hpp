#pragma once
// The steps of entire collectives, for calls that run in the background: by messages alone, in two
// levels where members share hosts. Each is counted under its algorithm (select/counts.hpp).
// Arguments as in algorithms.hpp; blocking calls can choose shared memory too (coll.hpp). The
// choice depends only on the members and the arguments, so all members write plans that match.
#include "coll/algorithms/algorithms.hpp"
#include "coll/two_level/placement.hpp"

namespace weft::coll {

// The team of a collective, as seen by one of its members.
struct TeamShape {
  int rank;
  int size;
  const Placement* hosts;  // null: one host, or every member is on a host of its own
  const Choices* choices;
  CallCounts counts = {};
};
// The shape is valid as long as the team.
TeamShape shape_of(Team& team);

// Write the steps of a collective among some of the team, by messages; it is complete when the next
// step begins.
void bcast_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef data,
                  std::size_t bytes, int root);
void reduce_within(const TeamShape& team, Plan& plan, const Group& group, BufferRef input,
                   BufferRef output, Vector vector, bool commutative, int root);

void write_barrier_steps(const TeamShape& team, Plan& plan);
void write_bcast_steps(const TeamShape& team, Plan& plan, std::size_t bytes, int root);
// From the input to the root's output, which may be the same memory.
void write_reduce_steps(const TeamShape& team, Plan& plan, Vector vector, bool commutative,
                        int root);
// The output holds this member's vector and takes the result.
void write_allreduce_steps(const TeamShape& team, Plan& plan, Vector vector, bool commutative);
void write_scan_steps(const TeamShape& team, Plan& plan, Vector vector, bool exclusive);
// From the input to the output, which may be the same memory. Counts are in elements.
void write_reduce_scatter_steps(const TeamShape& team, Plan& plan, const std::size_t* counts,
                                std::size_t unit, bool commutative);
// The output has one block for each member; this member's is already at its position.
void write_allgather_steps(const TeamShape& team, Plan& plan, std::size_t bytes);
void write_allgatherv_steps(const TeamShape& team, Plan& plan, const std::size_t* counts,
                            const std::ptrdiff_t* displacements);
// The root's own block is already at its position in the output (gather) or stays in the input
// (scatter).
void write_gather_steps(const TeamShape& team, Plan& plan, std::size_t bytes, int root);
void write_scatter_steps(const TeamShape& team, Plan& plan, std::size_t bytes, int root);
// Input and output do not overlap.
void write_alltoall_steps(const TeamShape& team, Plan& plan, std::size_t bytes);

}  // namespace weft::coll
