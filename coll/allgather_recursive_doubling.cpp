// Allgather by doubling: partners at distance 1, 2, 4, ... exchange all they have, in place. Only
// for a power of two of members. Cost: log2(n) alpha + (n - 1) bytes beta.
#include "coll/algorithms.hpp"

namespace weft::coll {

void allgather_recursive_doubling(Plan& plan, const Group& group, Place blocks, std::size_t bytes) {
  const int n = group.size, me = group.rank;
  for (int distance = 1; distance < n; distance *= 2) {
    const int partner = me ^ distance, peer = group.team_rank(partner);
    const int mine = me / distance * distance, theirs = partner / distance * distance;
    plan.exchange(peer, blocks + index(mine) * bytes, index(distance) * bytes, peer,
                  blocks + index(theirs) * bytes, index(distance) * bytes);
  }
}

}  // namespace weft::coll
