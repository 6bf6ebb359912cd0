// Allreduce of long vectors (Rabenseifner 2004): reduce-scatter by halving, then allgather by
// doubling. Cost: 2 log2(n) alpha + 2 (n - 1) / n bytes beta + (n - 1) / n bytes gamma, and up to
// two vectors more if n is not a power of two.
#include "coll/plan/halving.hpp"

namespace weft::coll {

void allreduce_rabenseifner(Plan& plan, const Group& group, BufferRef data, Vector vector) {
  const PowerOfTwo power(group);
  Reducer sums = Reducer::of(plan, data, vector);
  fold_in(plan, group, power, sums, vector.count);
  if (power.me >= 0) {
    halve(plan, group, power, sums, vector.count);
    const int part = first_part(power, power.me, power.size);
    const std::size_t begin = part_begin(vector.count, power.size, part) * vector.unit;
    const std::size_t end = part_begin(vector.count, power.size, part + 1) * vector.unit;
    plan.copy(data + begin, sums.mine + begin, end - begin);
    double_up(plan, group, power, data, vector);
  }
  fold_out(plan, group, power, data, vector.bytes());
}

}  // namespace weft::coll
