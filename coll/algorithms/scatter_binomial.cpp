// Scatter along a binomial tree: the reverse of gather_binomial, at the same cost.
#include <algorithm>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void scatter_binomial(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                      std::size_t bytes, int root) {
  if (group.size == 1) return;
  const Circle circle{group, root};  // the root is number 0
  const int n = circle.size(), me = circle.me();
  int mask = 1;
  while (mask < n && (me & mask) == 0) mask *= 2;
  const int width = std::min(mask, n - me);  // the subtree is [me, me + width)
  if (width == 1) {
    plan.receive(circle.team_rank(me - mask), receive, bytes);
    return;
  }
  const BufferRef blocks = plan.scratch(index(width) * bytes);
  int received = Plan::kNone;
  if (me == 0) {
    plan.copy(blocks, send + index(root) * bytes, index(n - root) * bytes);
    plan.copy(blocks + index(n - root) * bytes, send, index(root) * bytes);
  } else {
    received = plan.receive(circle.team_rank(me - mask), blocks, index(width) * bytes);
  }
  for (int child = mask / 2; child > 0; child /= 2)
    if (child < width)
      plan.send(circle.team_rank(me + child), blocks + index(child) * bytes,
                index(std::min(child, width - child)) * bytes, received);
  if (me != 0) plan.copy(receive, blocks, bytes, received);
}

}  // namespace weft::coll
