// Reduce-scatter by recursive halving for parts of any length: the members are halved, and each
// half gets from its partners what the half's members will own. With a number of members that is no
// power of two, the first ones act for two. Combines out of rank order.
// Cost: log2(n) alpha + (n - 1) / n bytes (beta + gamma), and up to two vectors more if n is no
// power of two.
#include "coll/halving.hpp"

namespace weft::coll {

void reduce_scatter_halving(Plan& plan, const Group& group, Place input, Place output,
                            const std::size_t* counts, std::size_t unit) {
  const PowerOfTwo power(group);
  const int me = group.rank;
  Vector vector{0, unit};
  for (int r = 0; r < group.size; ++r) vector.count += counts[r];
  Combiner sums = Combiner::of(plan, input, vector);
  fold_in(plan, group, power, sums, vector.count);

  // Where the parts of the members end that the places before `place` act for: places own whole,
  // adjacent members. Sums from a known one, as places follow each other.
  const auto first_member = [&](int place) {
    return place <= power.extra ? 2 * place : place + power.extra;
  };
  const auto sum = [&](int first, int last) {
    std::size_t total = 0;
    for (int r = first; r < last; ++r) total += counts[r];
    return total;
  };
  std::size_t low = 0;  // where the parts begin that this member still has
  if (power.me >= 0) {
    int first = 0;
    std::size_t held = vector.count;
    for (int half = power.size / 2; half > 0; half /= 2) {
      const int partner = power.me ^ half, peer = group.team_rank(power.member(partner));
      const bool upper = (power.me & half) != 0;
      const std::size_t lower = sum(first_member(first), first_member(first + half));
      const std::size_t kept = upper ? low + lower : low, given = upper ? low : low + lower;
      const std::size_t num_kept = upper ? held - lower : lower;
      plan.exchange(peer, sums.mine + given * unit, (held - num_kept) * unit, peer,
                    sums.other + kept * unit, num_kept * unit);
      sums.from_left(plan, kept, num_kept);
      if (upper) first += half;
      low = kept;
      held = num_kept;
    }
  }
  // `low` is where the part of the first member begins that this one acts for.
  const std::size_t mine = counts[me] * unit;
  Place own = sums.mine + low * unit;
  if (me < 2 * power.extra) {
    plan.settle();
    if (me % 2 == 0) {
      plan.receive(group.team_rank(me + 1), output, mine);
      return;
    }
    plan.send(group.team_rank(me - 1), own, counts[me - 1] * unit);
    own = own + counts[me - 1] * unit;
  }
  plan.copy(output, own, mine);
}

}  // namespace weft::coll
