// Allgather of short blocks for any number of members (Bruck et al. 1997): in step k everything
// gathered so far goes 2^k places down; blocks are kept in the order "mine first" and turned into
// place at the end. ceil(log2 n) steps.
#include <algorithm>

#include "coll/algorithms.hpp"

namespace weft::coll {

Status allgather_bruck(Team& team, void* receive, std::size_t bytes) {
  Links links(team, Collective::allgather);
  const int n = team.size(), me = team.rank();
  std::byte* blocks = team.scratch(index(n) * bytes);
  if (blocks == nullptr) return Code::no_memory;
  copy_bytes(blocks, at(receive, index(me) * bytes), bytes);
  for (int have = 1; have < n; have *= 2) {
    const std::size_t length = index(std::min(have, n - have)) * bytes;
    WEFT_COLL_TRY(links.exchange(blocks, length, (me - have + n) % n, blocks + index(have) * bytes,
                                 length, (me + have) % n));
  }
  // blocks[i] is that of member me + i.
  copy_bytes(at(receive, index(me) * bytes), blocks, index(n - me) * bytes);
  copy_bytes(receive, blocks + index(n - me) * bytes, index(me) * bytes);
  return {};
}

}  // namespace weft::coll
