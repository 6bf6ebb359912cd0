// Reduction of long vectors (Rabenseifner 2004): reduce-scatter by halving, then the parts are
// gathered at the root, along the reverse of a binomial tree as far as it goes.
// Cost: 2 log2(n) alpha + 2 (n - 1) / n bytes beta + (n - 1) / n bytes gamma.
#include "coll/plan/halving.hpp"

namespace weft::coll {

void reduce_rabenseifner(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                         Vector vector, int root) {
  const PowerOfTwo power(group);
  Reducer sums = Reducer::of(plan, input, vector);
  fold_in(plan, group, power, sums, vector.count);
  if (power.me >= 0) halve(plan, group, power, sums, vector.count);

  const auto begin = [&](int part) {
    return part_begin(vector.count, power.size, part) * vector.unit;
  };
  // The number, among the power of two, of the root or of the member that acts for it.
  const int top = root >= 2 * power.extra ? root - power.extra : root / 2;
  const bool root_acts = power.member(top) == root;
  if (power.me >= 0) {
    plan.wait_all();
    // In each step the members that differ from the top in this bit send all their parts to their
    // partner, in the reverse order of halve(): the parts that come together are adjacent.
    for (int distance = power.size / 2; distance > 0; distance /= 2) {
      const int half = power.size / distance / 2;
      const int partner = power.me ^ distance;
      const int peer = group.team_rank(power.member(partner));
      // Only the members that agree with the top in all higher bits still hold parts.
      const int held = first_part(power, power.me, 2 * distance);
      const int missing = first_part(power, partner, 2 * distance);
      if (((power.me ^ top) & distance) != 0) {
        plan.send(peer, sums.mine + begin(held), begin(held + half) - begin(held));
        break;
      }
      plan.receive(peer, sums.mine + begin(missing), begin(missing + half) - begin(missing));
      plan.wait_all();
    }
  }
  if (power.me == top) {
    if (root_acts)
      plan.copy(output, sums.mine, vector.bytes());
    else
      plan.send(group.team_rank(root), sums.mine, vector.bytes());
  } else if (group.rank == root) {
    plan.receive(group.team_rank(power.member(top)), output, vector.bytes());
  }
}

}  // namespace weft::coll
