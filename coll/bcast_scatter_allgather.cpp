// Broadcast of long data: the root scatters parts along a binomial tree, then a ring gathers them
// everywhere (van de Geijn). Every member sends and receives about twice the data, whatever n is.
// Cost: (log2 n + n - 1) alpha + 2 (n - 1) / n bytes beta.
#include <algorithm>

#include "coll/algorithms.hpp"

namespace weft::coll {

void bcast_scatter_allgather(Plan& plan, const Group& group, Place data, std::size_t bytes,
                             int root) {
  const int n = group.size;
  const int me = (group.rank - root + n) % n;
  const auto team_rank = [&](int relative) { return group.team_rank((relative + root) % n); };
  // Parts are numbered by relative rank.
  const auto begin = [&](int part) { return part_begin(bytes, n, part); };

  // Scatter: a node of the tree gets the parts of its whole subtree [me, me + mask).
  int mask = 1;
  while (mask < n && (me & mask) == 0) mask *= 2;
  int received = Plan::kNone;
  if (me != 0) {
    const std::size_t first = begin(me), last = begin(std::min(me + mask, n));
    received = plan.receive(team_rank(me - mask), data + first, last - first);
  }
  for (mask /= 2; mask > 0; mask /= 2) {
    if (me + mask >= n) continue;
    const std::size_t first = begin(me + mask), last = begin(std::min(me + 2 * mask, n));
    plan.send(team_rank(me + mask), data + first, last - first, received);
  }
  plan.settle();

  const int right = team_rank((me + 1) % n), left = team_rank((me + n - 1) % n);
  for (int step = 0; step < n - 1; ++step) {
    const int out = (me - step + n) % n, in = (me - step - 1 + n) % n;
    plan.exchange(right, data + begin(out), begin(out + 1) - begin(out), left, data + begin(in),
                  begin(in + 1) - begin(in));
  }
}

}  // namespace weft::coll
