// Prefix reductions by doubling: `sums` is the reduction of the vectors of the aligned group of 2^k
// members around this one, `prefix` that of the group's members up to this one. Keeps rank order.
// Cost: ceil(log2 n) (alpha + bytes beta + 2 bytes gamma).
#include "coll/plan/halving.hpp"

namespace weft::coll {

void scan_recursive_doubling(Plan& plan, const Group& group, BufferRef data, Vector vector,
                             bool exclusive) {
  const int n = group.size, me = group.rank;
  const std::size_t bytes = vector.bytes();
  Reducer sums = Reducer::of(plan, data, vector);
  const BufferRef prefix = plan.scratch(bytes);
  // An exclusive prefix is empty at first; an inclusive one begins with this member's vector.
  bool has_prefix = !exclusive;
  if (has_prefix) plan.copy(prefix, data, bytes);

  for (int distance = 1; distance < n; distance *= 2) {
    const int partner = me ^ distance;
    if (partner >= n)
      continue;  // the partner's group is incomplete; no higher member needs this one's through it
    const int peer = group.team_rank(partner);
    plan.exchange(peer, sums.mine, bytes, peer, sums.other, bytes);
    if (partner > me) {
      sums.from_right(plan, 0, vector.count);
      continue;
    }
    if (has_prefix)
      plan.reduce(sums.other, prefix, vector.count);
    else
      plan.copy(prefix, sums.other, bytes);
    has_prefix = true;
    sums.from_left(plan, 0, vector.count);
  }
  if (has_prefix) plan.copy(data, prefix, bytes);
}

}  // namespace weft::coll
