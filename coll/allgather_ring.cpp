// Allgather around a ring: every step passes on the block that came last. n - 1 steps, each member
// sends only to its neighbour and each block straight into its place: for long blocks.
#include "coll/algorithms.hpp"

namespace weft::coll {

Status allgather_ring(Team& team, void* receive, std::size_t bytes) {
  Links links(team, Collective::allgather);
  const int n = team.size(), me = team.rank();
  for (int step = 0; step < n - 1; ++step) {
    const int out = (me - step + n) % n, in = (me - step - 1 + 2 * n) % n;
    WEFT_COLL_TRY(links.exchange(at(receive, index(out) * bytes), bytes, (me + 1) % n,
                                 at(receive, index(in) * bytes), bytes, (me - 1 + n) % n));
  }
  return {};
}

}  // namespace weft::coll
