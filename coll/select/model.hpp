#pragma once
// Model: predicts the time of a collective from its steps, in LogGP (Alexandrov, Ionescu, Schauser,
// Scheiman 1995) with one port per member: messages to a member arrive one after the other, and
// those it sends leave so. Every member is on a host of its own. Pure functions; any thread.
#include <span>
#include <string>
#include <vector>

#include "coll/plan/plan.hpp"
#include "coll/select/selection.hpp"

namespace weft::coll {

// The costs of a network, in nanoseconds per message or per byte.
struct Network {
  double latency = 1000;         // L: on the wire
  double overhead = 250;         // o: of a processor, at each end
  double per_byte = 0.08;        // G: 100 Gbit/s
  double reduce_per_byte = 0.1;  // to reduce a byte of a vector with another
  // The time of a message without bytes, from end to end.
  double alpha() const noexcept { return latency + 2 * overhead; }
};

// The time until the last member is done, in ns. Data are assumed to leave when they are sent,
// whether the receiver is ready or not. plans: one for each member; together they must not
// deadlock.
double time_of(std::span<const Plan> plans, const Network& network);

// The algorithms of a collective between hosts, without repetition.
std::vector<Algorithm> algorithms_of(Collective collective);
// Returns true if the algorithm only works for operations that commute.
bool needs_commuting(Collective collective, Algorithm algorithm) noexcept;

// Writes the steps of one member, with rank 0 as the root. bytes: as in Rule.
void write_steps(Collective collective, Algorithm algorithm, Plan& plan, const Group& group,
                 std::size_t bytes);
double time_of(Collective collective, Algorithm algorithm, int num_members, std::size_t bytes,
               const Network& network);

// A value of COLL_ALGORITHMS that takes the fastest algorithms by the model, for communicators of
// up to `most_members`, each member on a host of its own, and the default ones within hosts.
std::string table_for(const Network& network, int most_members);

}  // namespace weft::coll
