// Allgather of short blocks for any number of members (Bruck et al. 1997): in step k everything
// gathered so far goes 2^k places down; blocks are kept in the order "mine first" and turned into
// place at the end. Cost: ceil(log2 n) alpha + (n - 1) bytes beta.
#include <algorithm>

#include "coll/algorithms.hpp"

namespace weft::coll {

void allgather_bruck(Plan& plan, const Group& group, Place blocks, std::size_t bytes) {
  const int n = group.size, me = group.rank;
  const Place turned = plan.scratch(index(n) * bytes);
  plan.copy(turned, blocks + index(me) * bytes, bytes);
  for (int have = 1; have < n; have *= 2) {
    const std::size_t length = index(std::min(have, n - have)) * bytes;
    plan.exchange(group.team_rank((me - have + n) % n), turned, length,
                  group.team_rank((me + have) % n), turned + index(have) * bytes, length);
  }
  // Block i of these is that of member me + i.
  plan.copy(blocks + index(me) * bytes, turned, index(n - me) * bytes);
  plan.copy(blocks, turned + index(n - me) * bytes, index(me) * bytes);
}

}  // namespace weft::coll
