// Barrier by dissemination (Hensgen, Finkel, Manber 1988): in round k every member notifies the one
// 2^k positions on; after ceil(log2 n) rounds every member knows, indirectly, that all have
// arrived.
// Cost: ceil(log2 n) alpha.
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void barrier_dissemination(Plan& plan, const Group& group) {
  const int n = group.size, me = group.rank;
  for (int distance = 1; distance < n; distance *= 2)
    plan.exchange(group.team_rank((me + distance) % n), {}, 0,
                  group.team_rank((me - distance + n) % n), {}, 0);
}

}  // namespace weft::coll
