// Gather along a binomial tree: every node passes the blocks of its whole subtree up at once. For
// short blocks: log2(n) messages at the root instead of n - 1.
#include <algorithm>

#include "coll/algorithms.hpp"

namespace weft::coll {

Status gather_binomial(Team& team, const void* send, void* receive, std::size_t bytes, int root) {
  Links links(team, Collective::gather);
  const int n = team.size(), me = (team.rank() - root + n) % n;
  const auto world = [&](int relative) { return (relative + root) % n; };
  int mask = 1;  // the subtree is [me, me + mask)
  while (mask < n && (me & mask) == 0) mask *= 2;
  const int width = std::min(mask, n - me);

  const void* subtree = send;
  if (width > 1) {
    std::byte* blocks = team.scratch(index(width) * bytes);
    if (blocks == nullptr) return Code::no_memory;
    if (me != 0) copy_bytes(blocks, send, bytes);
    for (int child = 1; child < width; child *= 2)
      WEFT_COLL_TRY(links.receive(blocks + index(child) * bytes,
                                  index(std::min(child, width - child)) * bytes,
                                  world(me + child)));
    subtree = blocks;
  }
  if (me != 0) return links.send(subtree, index(width) * bytes, world(me - mask));
  // The root's own block is in place already; the others are in relative order.
  copy_bytes(at(receive, index(root + 1) * bytes), at(subtree, bytes), index(n - root - 1) * bytes);
  copy_bytes(receive, at(subtree, index(n - root) * bytes), index(root) * bytes);
  return {};
}

}  // namespace weft::coll
