// Reduce-scatter as a reduction to member 0 and a scatter of the parts: keeps rank order, so it
// works for operations that do not commute.
// Cost: (log2 n + n - 1) alpha + (log2 n + 1) bytes beta + log2(n) bytes gamma.
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void reduce_scatter_binomial(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                             const std::size_t* counts, std::size_t unit) {
  const int n = group.size;
  Vector vector{0, unit};
  for (int r = 0; r < n; ++r) vector.count += counts[r];
  const BufferRef whole = group.rank == 0 ? plan.scratch(vector.bytes()) : BufferRef{};
  reduce_binomial(plan, group, input, whole, vector, false, 0);
  plan.wait_all();
  const std::size_t mine = counts[group.rank] * unit;
  if (group.rank != 0) {
    if (mine != 0) plan.receive(group.team_rank(0), output, mine);
    return;
  }
  plan.copy(output, whole, mine);
  std::size_t offset = mine;
  for (int r = 1; r < n; ++r) {
    const std::size_t bytes = counts[r] * unit;
    if (bytes != 0) plan.send(group.team_rank(r), whole + offset, bytes);
    offset += bytes;
  }
}

}  // namespace weft::coll
