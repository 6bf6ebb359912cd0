// Reduce-scatter in n - 1 steps: in step k everyone sends to the member k places on that member's
// part, and combines its own. For long vectors. Combines in rotated order.
// Cost: (n - 1) alpha + (n - 1) / n bytes (beta + gamma).
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void reduce_scatter_pairwise(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                             const std::size_t* counts, std::size_t unit) {
  const int n = group.size, me = group.rank;
  std::size_t before = 0, count = 0;  // elements of the members below this one, of all
  for (int r = 0; r < n; ++r) {
    if (r == me) before = count;
    count += counts[r];
  }
  const std::size_t mine = counts[me] * unit;
  // The result is built apart: `output` may be `input`, which is still sent from.
  const BufferRef result = plan.scratch(mine), arrived = plan.scratch(mine);
  plan.copy(result, input + before * unit, mine);
  std::size_t out = before * unit;
  for (int step = 1; step < n; ++step) {
    const int to = (me + step) % n, from = (me - step + n) % n;
    // The part of the next member follows that of the one before.
    out = to == 0 ? 0 : out + counts[to - 1] * unit;
    plan.exchange(group.team_rank(to), input + out, counts[to] * unit, group.team_rank(from),
                  arrived, mine);
    plan.reduce(arrived, result, counts[me]);
  }
  plan.copy(output, result, mine);
}

}  // namespace weft::coll
