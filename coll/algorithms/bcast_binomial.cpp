// Broadcast along a binomial tree: the number of those who have the data doubles every round.
// Every byte is sent up to log2(n) times by the root: for short data.
// Cost: ceil(log2 n) (alpha + bytes beta).
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void bcast_binomial(Plan& plan, const Group& group, BufferRef data, std::size_t bytes, int root) {
  const int n = group.size;
  const Circle circle{group, root};  // the root is place 0
  const int me = circle.me();
  // Our parent lacks our lowest set bit; our children add a lower one.
  int mask = 1;
  while (mask < n && (me & mask) == 0) mask *= 2;
  int received = Plan::kNone;
  if (me != 0) received = plan.receive(circle.team_rank(me - mask), data, bytes);
  for (mask /= 2; mask > 0; mask /= 2)
    if (me + mask < n) plan.send(circle.team_rank(me + mask), data, bytes, received);
}

}  // namespace weft::coll
