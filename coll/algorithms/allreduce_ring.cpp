// Allreduce around a ring (Patarasuk, Yuan 2009): n - 1 steps of reduce-scatter, n - 1 of
// allgather, 1/n of the vector each. Reduces parts in rotated order, so the operation must commute.
// Cost: 2 (n - 1) alpha + 2 (n - 1) / n bytes beta + (n - 1) / n bytes gamma.
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void allreduce_ring(Plan& plan, const Group& group, BufferRef data, Vector vector) {
  const int n = group.size, me = group.rank;
  const int right = group.team_rank((me + 1) % n), left = group.team_rank((me - 1 + n) % n);
  const std::size_t unit = vector.unit;
  const auto begin = [&](int part) { return part_begin(vector.count, n, part); };
  const auto length = [&](int part) { return (begin(part + 1) - begin(part)) * unit; };
  const BufferRef incoming = plan.scratch(length(0));

  for (int step = 0; step < n - 1; ++step) {
    const int out = (me - step + n) % n, in = (me - step - 1 + 2 * n) % n;
    plan.exchange(right, data + begin(out) * unit, length(out), left, incoming, length(in));
    plan.reduce(incoming, data + begin(in) * unit, begin(in + 1) - begin(in));
  }
  // Part me + 1 is fully reduced here.
  for (int step = 0; step < n - 1; ++step) {
    const int out = (me + 1 - step + n) % n, in = (me - step + n) % n;
    plan.exchange(right, data + begin(out) * unit, length(out), left, data + begin(in) * unit,
                  length(in));
  }
}

}  // namespace weft::coll
