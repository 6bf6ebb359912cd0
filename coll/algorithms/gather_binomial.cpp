// Gather along a binomial tree: every node sends the blocks of its entire subtree up in one
// message. For short blocks. Cost: ceil(log2 n) alpha + (n - 1) bytes beta.
#include <algorithm>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void gather_binomial(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                     std::size_t bytes, int root) {
  const Circle circle{group, root};  // the root is number 0
  const int n = circle.size(), me = circle.me();
  int mask = 1;  // the subtree is [me, me + mask)
  while (mask < n && (me & mask) == 0) mask *= 2;
  const int width = std::min(mask, n - me);

  BufferRef subtree = send;
  if (width > 1) {
    subtree = plan.scratch(index(width) * bytes);
    if (me != 0) plan.copy(subtree, send, bytes);
    for (int child = 1; child < width; child *= 2)
      plan.receive(circle.team_rank(me + child), subtree + index(child) * bytes,
                   index(std::min(child, width - child)) * bytes);
    plan.wait_all();
  }
  if (me != 0) {
    plan.send(circle.team_rank(me - mask), subtree, index(width) * bytes);
    return;
  }
  // The root's own block is at its position already; the others are in relative order.
  plan.copy(receive + index(root + 1) * bytes, subtree + bytes, index(n - root - 1) * bytes);
  plan.copy(receive, subtree + index(n - root) * bytes, index(root) * bytes);
}

}  // namespace weft::coll
