// Broadcast along a binomial tree: the number of those who have the data doubles every round.
// Latency log2(n), every byte is sent up to log2(n) times by the root: for short data.
#include "coll/algorithms.hpp"

namespace weft::coll {

Status bcast_binomial(Team& team, void* data, std::size_t bytes, int root) {
  Links links(team, Collective::bcast);
  const int n = team.size();
  const int me = (team.rank() - root + n) % n;  // relative: the root is 0
  // Our parent lacks our lowest set bit; our children add a lower one.
  int mask = 1;
  while (mask < n && (me & mask) == 0) mask *= 2;
  if (me != 0) WEFT_COLL_TRY(links.receive(data, bytes, (me - mask + root) % n));
  for (mask /= 2; mask > 0; mask /= 2)
    if (me + mask < n) WEFT_COLL_TRY(links.send(data, bytes, (me + mask + root) % n));
  return {};
}

}  // namespace weft::coll
