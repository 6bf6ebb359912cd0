// Barrier by dissemination (Hensgen, Finkel, Manber 1988): in round k every member tells the one
// 2^k places on; after ceil(log2 n) rounds everybody has heard, indirectly, of everybody.
#include "coll/algorithms.hpp"

namespace weft::coll {

Status barrier_dissemination(Team& team) {
  Links links(team, Collective::barrier);
  const int n = team.size(), me = team.rank();
  for (int distance = 1; distance < n; distance *= 2)
    WEFT_COLL_TRY(
        links.exchange(nullptr, 0, (me + distance) % n, nullptr, 0, (me - distance + n) % n));
  return {};
}

}  // namespace weft::coll
