// Reduce-scatter in n - 1 steps: in step k every member sends the part of the member k positions on
// to that member, and reduces its own. For long vectors. Reduces in rotated order.
// Cost: (n - 1) alpha + (n - 1) / n bytes (beta + gamma).
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void reduce_scatter_pairwise(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                             const std::size_t* counts, std::size_t unit) {
  const int n = group.size, me = group.rank;
  std::size_t before = 0, count = 0;  // elements of the members below this one, and of all
  for (int r = 0; r < n; ++r) {
    if (r == me) before = count;
    count += counts[r];
  }
  const std::size_t mine = counts[me] * unit;
  // The result needs memory of its own: `output` may be `input`, which is still sent from.
  const BufferRef result = plan.scratch(mine), arrived = plan.scratch(mine);
  plan.copy(result, input + before * unit, mine);
  std::size_t out = before * unit;
  for (int step = 1; step < n; ++step) {
    const int to = (me + step) % n, from = (me - step + n) % n;
    // The next member's part follows that of the member before it.
    out = to == 0 ? 0 : out + counts[to - 1] * unit;
    plan.exchange(group.team_rank(to), input + out, counts[to] * unit, group.team_rank(from),
                  arrived, mine);
    plan.reduce(arrived, result, counts[me]);
  }
  plan.copy(output, result, mine);
}

}  // namespace weft::coll
