// Allreduce of short vectors: partners at distance 1, 2, 4, ... exchange what they have combined so
// far. log2(n) steps of the whole vector.
#include "coll/algorithms.hpp"
#include "coll/halving.hpp"

namespace weft::coll {

Status allreduce_recursive_doubling(Team& team, void* data, std::size_t count,
                                    const Reduction& op) {
  Links links(team, Collective::allreduce);
  const PowerOfTwo power(team);
  const std::size_t bytes = count * op.element_bytes, stride = round_up_line(bytes);
  std::byte* scratch = team.scratch(2 * stride);
  if (scratch == nullptr) return Code::no_memory;
  Combiner sums{op, scratch, scratch + stride};
  copy_bytes(sums.mine, data, bytes);
  WEFT_COLL_TRY(fold_in(team, links, power, sums, count));
  if (power.me >= 0) {
    for (int distance = 1; distance < power.size; distance *= 2) {
      const int partner = power.me ^ distance;
      WEFT_COLL_TRY(links.exchange(sums.mine, bytes, power.member(partner), sums.other, bytes,
                                   power.member(partner)));
      if (partner < power.me)
        sums.from_left(0, count);
      else
        sums.from_right(count);
    }
    copy_bytes(data, sums.mine, bytes);
  }
  return fold_out(team, links, power, data, bytes);
}

}  // namespace weft::coll
