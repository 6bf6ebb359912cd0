// All-to-all of short blocks (Bruck et al. 1997): a block that has to go d places on travels in
// the steps k for which bit k of d is set, together with all others of that step. ceil(log2 n)
// messages instead of n - 1, at the price of sending each block up to log2(n) times.
#include "coll/algorithms.hpp"

namespace weft::coll {

Status alltoall_bruck(Team& team, const void* send, void* receive, std::size_t bytes) {
  Links links(team, Collective::alltoall);
  const int n = team.size(), me = team.rank();
  // blocks[d]: what is on its way d places on. packed: those that travel now; arrived: the others'.
  const std::size_t half = round_up_line(index((n + 1) / 2) * bytes);
  const std::size_t all = round_up_line(index(n) * bytes);
  std::byte* blocks = team.scratch(all + 2 * half);
  if (blocks == nullptr) return Code::no_memory;
  std::byte *packed = blocks + all, *arrived = packed + half;

  copy_bytes(blocks, at(send, index(me) * bytes), index(n - me) * bytes);
  copy_bytes(blocks + index(n - me) * bytes, send, index(me) * bytes);
  for (int step = 1; step < n; step *= 2) {
    std::size_t length = 0;
    for (int d = step; d < n; ++d)
      if ((d & step) != 0) {
        copy_bytes(packed + length, blocks + index(d) * bytes, bytes);
        length += bytes;
      }
    WEFT_COLL_TRY(
        links.exchange(packed, length, (me + step) % n, arrived, length, (me - step + n) % n));
    length = 0;
    for (int d = step; d < n; ++d)
      if ((d & step) != 0) {
        copy_bytes(blocks + index(d) * bytes, arrived + length, bytes);
        length += bytes;
      }
  }
  // blocks[d] came from d places back.
  for (int d = 0; d < n; ++d)
    copy_bytes(at(receive, index((me - d + n) % n) * bytes), blocks + index(d) * bytes, bytes);
  return {};
}

}  // namespace weft::coll
