// Broadcast of long data: the root scatters parts along a binomial tree, then an allgather follows
// (van de Geijn 1994; the allgather is that of plan/circulant.hpp).
// Cost: 2 ceil(log2 n) alpha + 2 (n - 1) / n bytes beta.
#include "coll/plan/circulant.hpp"

namespace weft::coll {

void bcast_scatter_allgather(Plan& plan, const Group& group, BufferRef data, std::size_t bytes,
                             int root) {
  const int n = group.size;
  const Circle circle{group, root};  // the root is number 0
  const Parts parts{n, bytes, 1};
  const int me = circle.me();

  // Scatter: a node of the tree gets the parts of its entire subtree [me, me + mask).
  int mask = 1;
  while (mask < n && (me & mask) == 0) mask *= 2;
  int received = Plan::kNone;
  if (me != 0) {
    const std::size_t length = parts.bytes(me, std::min(me + mask, n) - me);
    if (length != 0)
      received = plan.receive(circle.team_rank(me - mask), data + parts.begin(me), length);
  }
  for (mask /= 2; mask > 0; mask /= 2) {
    if (me + mask >= n) continue;
    const std::size_t length = parts.bytes(me + mask, std::min(me + 2 * mask, n) - me - mask);
    if (length != 0)
      plan.send(circle.team_rank(me + mask), data + parts.begin(me + mask), length, received);
  }
  plan.wait_all();
  allgather_around(plan, circle, data, parts);
}

}  // namespace weft::coll
