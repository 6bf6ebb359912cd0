// Reduce-scatter as a reduction to member 0 and a scatter of the parts: keeps rank order, so it
// serves operations that do not commute.
#include <vector>

#include "coll/algorithms.hpp"

namespace weft::coll {

Status reduce_scatter_binomial(Team& team, const void* input, void* receive,
                               const std::size_t* counts, const Reduction& op) {
  Links links(team, Collective::reduce_scatter);
  const int n = team.size();
  std::size_t count = 0;
  for (int r = 0; r < n; ++r) count += counts[r];
  std::vector<std::max_align_t> whole;
  if (team.rank() == 0)
    whole.resize((count * op.element_bytes + sizeof(whole[0]) - 1) / sizeof(whole[0]));
  WEFT_COLL_TRY(reduce_binomial(team, input, whole.data(), count, op, 0));
  const std::size_t mine = counts[team.rank()] * op.element_bytes;
  if (team.rank() != 0) return mine == 0 ? Status() : links.receive(receive, mine, 0);
  copy_bytes(receive, whole.data(), mine);
  std::size_t offset = mine;
  for (int r = 1; r < n; ++r) {
    const std::size_t bytes = counts[r] * op.element_bytes;
    if (bytes != 0) WEFT_COLL_TRY(links.send(at(whole.data(), offset), bytes, r));
    offset += bytes;
  }
  return {};
}

}  // namespace weft::coll
