#pragma once
// Runs plans in place: blocking calls use the algorithms through it. One thread at a time per team.
#include "base/shortage.hpp"
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

// The caller's buffers of a plan. input is only read; either may be null where no step uses it.
struct Buffers {
  const void* input = nullptr;
  void* output = nullptr;
};

// Runs the steps of this member. Blocks until they are complete; after an error no new one begins,
// and if a member is lost the others are notified. op: for plans that reduce. Returns ok, peer_lost
// or, before the first step, no_memory.
Status run(Team& team, Collective collective, const Plan& plan, const Buffers& buffers,
           const Reduction* op = nullptr);

// Writes the steps of this member into the team's plan by `write(plan, group)`, and runs them.
template <class Write>
Status run_steps(Team& team, Collective collective, const Buffers& buffers, const Reduction* op,
                 Write&& write) {
  Plan& plan = team.plan();
  Status written;
  std::uint64_t since_ns = 0;
  do {
    plan.clear();
    written = or_no_memory([&] { write(plan, Group{team.rank(), team.size()}); });
  } while (!written && team.wait_for_memory(since_ns));
  return written ? run(team, collective, plan, buffers, op) : written;
}

}  // namespace weft::coll
