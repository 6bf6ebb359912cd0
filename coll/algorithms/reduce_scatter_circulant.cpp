// Reduce-scatter in the smallest possible number of rounds, for parts of any length
// (plan/circulant.hpp).
// Cost: ceil(log2 n) alpha + (n - 1) / n bytes (beta + gamma).
#include "coll/plan/circulant.hpp"

namespace weft::coll {

void reduce_scatter_circulant(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                              const std::size_t* counts, std::size_t unit) {
  const Parts parts{group.size, 0, unit, counts};
  const BufferRef sum = reduce_scatter_around(plan, {group}, input, parts);
  plan.copy(output, sum, counts[group.rank] * unit);
}

}  // namespace weft::coll
