// Reduce-scatter in n - 1 steps: in step k everyone sends to the member k places on that member's
// part, and combines its own. Every byte is sent once: for long vectors. Combines in rotated order.
#include "coll/algorithms.hpp"

namespace weft::coll {

Status reduce_scatter_pairwise(Team& team, const void* input, void* receive,
                               const std::size_t* counts, const Reduction& op) {
  Links links(team, Collective::reduce_scatter);
  const int n = team.size(), me = team.rank();
  const auto begin = [&](int part) {
    std::size_t sum = 0;
    for (int r = 0; r < part; ++r) sum += counts[r];
    return sum * op.element_bytes;
  };
  const std::size_t mine = counts[me] * op.element_bytes, stride = round_up_line(mine);
  // The result is built apart: `receive` may be `input`, which is still sent from.
  std::byte* result = team.scratch(2 * stride);
  if (result == nullptr) return Code::no_memory;
  std::byte* arrived = result + stride;
  copy_bytes(result, at(input, begin(me)), mine);
  for (int step = 1; step < n; ++step) {
    const int to = (me + step) % n, from = (me - step + n) % n;
    WEFT_COLL_TRY(links.exchange(at(input, begin(to)), counts[to] * op.element_bytes, to, arrived,
                                 mine, from));
    if (mine != 0) op.apply(arrived, result, counts[me], op.argument);
  }
  copy_bytes(receive, result, mine);
  return {};
}

}  // namespace weft::coll
