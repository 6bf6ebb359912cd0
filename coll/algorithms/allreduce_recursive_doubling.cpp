// Allreduce of short vectors: partners at distance 1, 2, 4, ... exchange what they have reduced so
// far. Cost: log2(n) (alpha + bytes beta + bytes gamma), and two messages more if n is not a power
// of two.
#include "coll/plan/halving.hpp"

namespace weft::coll {

void allreduce_recursive_doubling(Plan& plan, const Group& group, BufferRef data, Vector vector) {
  const PowerOfTwo power(group);
  const std::size_t bytes = vector.bytes();
  Reducer sums = Reducer::of(plan, data, vector);
  fold_in(plan, group, power, sums, vector.count);
  if (power.me >= 0) {
    for (int distance = 1; distance < power.size; distance *= 2) {
      const int partner = power.me ^ distance;
      const int peer = group.team_rank(power.member(partner));
      plan.exchange(peer, sums.mine, bytes, peer, sums.other, bytes);
      if (partner < power.me)
        sums.from_left(plan, 0, vector.count);
      else
        sums.from_right(plan, 0, vector.count);
    }
    plan.copy(data, sums.mine, bytes);
  }
  fold_out(plan, group, power, data, bytes);
}

}  // namespace weft::coll
