// Scatter along a binomial tree: the reverse of gather_binomial.
#include <algorithm>

#include "coll/algorithms.hpp"

namespace weft::coll {

Status scatter_binomial(Team& team, const void* send, void* receive, std::size_t bytes, int root) {
  Links links(team, Collective::scatter);
  const int n = team.size(), me = (team.rank() - root + n) % n;
  const auto world = [&](int relative) { return (relative + root) % n; };
  int mask = 1;
  while (mask < n && (me & mask) == 0) mask *= 2;
  const int width = std::min(mask, n - me);  // the subtree is [me, me + width)
  if (width == 1) return links.receive(receive, bytes, world(me - mask));

  std::byte* blocks = team.scratch(index(width) * bytes);
  if (blocks == nullptr) return Code::no_memory;
  if (me == 0) {
    copy_bytes(blocks, at(send, index(root) * bytes), index(n - root) * bytes);
    copy_bytes(blocks + index(n - root) * bytes, send, index(root) * bytes);
  } else {
    WEFT_COLL_TRY(links.receive(blocks, index(width) * bytes, world(me - mask)));
    copy_bytes(receive, blocks, bytes);
  }
  for (int child = mask / 2; child > 0; child /= 2)
    if (child < width)
      WEFT_COLL_TRY(links.send(blocks + index(child) * bytes,
                               index(std::min(child, width - child)) * bytes, world(me + child)));
  return {};
}

}  // namespace weft::coll
