// Broadcast of long data: the root scatters parts along a binomial tree, then a ring gathers them
// everywhere (van de Geijn). Every member sends and receives about twice the data, whatever n is.
#include <algorithm>

#include "coll/algorithms.hpp"

namespace weft::coll {

Status bcast_scatter_allgather(Team& team, void* data, std::size_t bytes, int root) {
  Links links(team, Collective::bcast);
  const int n = team.size();
  const int me = (team.rank() - root + n) % n;
  const auto world = [&](int relative) { return (relative + root) % n; };
  // Parts are numbered by relative rank.
  const auto begin = [&](int part) { return part_begin(bytes, n, part); };

  // Scatter: a node of the tree gets the parts of its whole subtree [me, me + mask).
  int mask = 1;
  while (mask < n && (me & mask) == 0) mask *= 2;
  if (me != 0) {
    const std::size_t first = begin(me), last = begin(std::min(me + mask, n));
    WEFT_COLL_TRY(links.receive(at(data, first), last - first, world(me - mask)));
  }
  for (mask /= 2; mask > 0; mask /= 2) {
    if (me + mask >= n) continue;
    const std::size_t first = begin(me + mask), last = begin(std::min(me + 2 * mask, n));
    WEFT_COLL_TRY(links.send(at(data, first), last - first, world(me + mask)));
  }

  const int right = world((me + 1) % n), left = world((me + n - 1) % n);
  for (int step = 0; step < n - 1; ++step) {
    const int out = (me - step + n) % n, in = (me - step - 1 + n) % n;
    WEFT_COLL_TRY(links.exchange(at(data, begin(out)), begin(out + 1) - begin(out), right,
                                 at(data, begin(in)), begin(in + 1) - begin(in), left));
  }
  return {};
}

}  // namespace weft::coll
