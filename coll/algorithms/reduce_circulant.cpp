// Reduction of long vectors for any number of members: reduce-scatter (plan/circulant.hpp), then
// the parts are gathered along a binomial tree.
// Cost: 2 ceil(log2 n) alpha + 2 (n - 1) / n bytes beta + (n - 1) / n bytes gamma.
#include "coll/plan/circulant.hpp"

namespace weft::coll {

void reduce_circulant(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                      Vector vector, int root) {
  const int n = group.size;
  const Circle circle{group, root};  // the root is number 0
  const Parts parts{n, vector.count, vector.unit};
  const int me = circle.me();
  const BufferRef sum = reduce_scatter_around(plan, circle, input, parts);

  // This member's subtree is [me, last).
  int mask = 1;
  while (mask < n && (me & mask) == 0) mask *= 2;
  const int last = std::min(me + mask, n);
  const std::size_t own = parts.bytes(me, 1);
  const bool is_leaf = last == me + 1;
  const BufferRef gathered = me == 0   ? output
                             : is_leaf ? sum
                                       : plan.scratch(parts.bytes(me, last - me));
  plan.copy(gathered, sum, own);
  for (int child = 1; child < mask && me + child < n; child *= 2) {
    const int end = std::min(me + 2 * child, n);
    const std::size_t bytes = parts.bytes(me + child, end - me - child);
    if (bytes != 0)
      plan.receive(circle.team_rank(me + child), gathered + parts.bytes(me, child), bytes);
  }
  if (me == 0) return;
  plan.wait_all();
  if (const std::size_t bytes = parts.bytes(me, last - me); bytes != 0)
    plan.send(circle.team_rank(me - mask), gathered, bytes);
}

}  // namespace weft::coll
