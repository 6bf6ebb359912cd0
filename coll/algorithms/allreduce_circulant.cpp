// Allreduce of long vectors for any number of members: reduce-scatter, then allgather
// (plan/circulant.hpp).
// Cost: 2 ceil(log2 n) alpha + 2 (n - 1) / n bytes beta + (n - 1) / n bytes gamma.
#include "coll/plan/circulant.hpp"

namespace weft::coll {

void allreduce_circulant(Plan& plan, const Group& group, BufferRef data, Vector vector) {
  const Parts parts{group.size, vector.count, vector.unit};
  const Circle circle{group};
  const BufferRef sum = reduce_scatter_around(plan, circle, data, parts);
  plan.copy(data + parts.begin(group.rank) * vector.unit, sum, parts.bytes(group.rank, 1));
  allgather_around(plan, circle, data, parts);
}

}  // namespace weft::coll
