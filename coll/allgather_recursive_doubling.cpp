// Allgather by doubling: partners at distance 1, 2, 4, ... exchange all they have, in place. Only
// for a power of two of members.
#include "coll/algorithms.hpp"

namespace weft::coll {

Status allgather_recursive_doubling(Team& team, void* receive, std::size_t bytes) {
  Links links(team, Collective::allgather);
  const int n = team.size(), me = team.rank();
  for (int distance = 1; distance < n; distance *= 2) {
    const int partner = me ^ distance;
    const int mine = me / distance * distance, theirs = partner / distance * distance;
    WEFT_COLL_TRY(links.exchange(at(receive, index(mine) * bytes), index(distance) * bytes, partner,
                                 at(receive, index(theirs) * bytes), index(distance) * bytes,
                                 partner));
  }
  return {};
}

}  // namespace weft::coll
