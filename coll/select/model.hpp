#pragma once
// Model: how long a collective takes by its steps, in LogGP (Alexandrov, Ionescu, Schauser,
// Scheiman 1995) with one port a member: what comes to a member comes one after the other, and what
// it sends leaves so. Every member is on a host of its own. Pure functions; any thread.
#include <span>
#include <string>
#include <vector>

#include "coll/plan/plan.hpp"
#include "coll/select/selection.hpp"

namespace weft::coll {

// Nanoseconds, for a message or for a byte.
struct Network {
  double latency = 1000;         // L: on its way
  double overhead = 250;         // o: a processor's, at each end
  double per_byte = 0.08;        // G: 100 Gbit/s
  double reduce_per_byte = 0.1;  // a byte of a vector added to another
  // Of a message without bytes, from end to end.
  double alpha() const noexcept { return latency + 2 * overhead; }
};

// Until the last member is through, in ns. Data are taken to leave when they are sent, whether the
// receiver is ready or not. plans: one a member, that play without waiting for ever.
double time_of(std::span<const Plan> plans, const Network& network);

// What there is for a collective between hosts, without repetition.
std::vector<Algorithm> algorithms_of(Collective collective);
// Whether it only works for operations that commute.
bool needs_commuting(Collective collective, Algorithm algorithm) noexcept;

// The steps of one member with rank 0 as the root. bytes: as in Rule.
void write_steps(Collective collective, Algorithm algorithm, Plan& plan, const Group& group,
                 std::size_t bytes);
double time_of(Collective collective, Algorithm algorithm, int num_members, std::size_t bytes,
               const Network& network);

// A value of COLL_ALGORITHMS that takes what is fastest by the model, for communicators of up to so
// many members, each on a host of its own, and within hosts what is taken anyway.
std::string table_for(const Network& network, int most_members);

}  // namespace weft::coll
