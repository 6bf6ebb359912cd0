// Broadcast along a binomial tree: the number of members that have the data doubles every round.
// The root sends every byte up to log2(n) times: for short data.
// Cost: ceil(log2 n) (alpha + bytes beta).
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void bcast_binomial(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root) {
  const int n = group.size;
  const Circle circle{group, root};  // the root is number 0
  const int me = circle.me();
  // The parent's number is this member's without its lowest set bit; a child's has one lower bit
  // more.
  int mask = 1;
  while (mask < n && (me & mask) == 0) mask *= 2;
  int received = Plan::kNone;
  if (me != 0) received = plan.receive(circle.team_rank(me - mask), data, bytes);
  for (mask /= 2; mask > 0; mask /= 2)
    if (me + mask < n) plan.send(circle.team_rank(me + mask), data, bytes, received);
}

}  // namespace weft::coll
