// Allreduce of long vectors (Rabenseifner 2004): reduce-scatter by halving, then allgather by
// doubling. 2 log2(n) steps, about two vectors sent by each member.
#include "coll/algorithms.hpp"
#include "coll/halving.hpp"

namespace weft::coll {

Status allreduce_rabenseifner(Team& team, void* data, std::size_t count, const Reduction& op) {
  Links links(team, Collective::allreduce);
  const PowerOfTwo power(team);
  const std::size_t bytes = count * op.element_bytes, stride = round_up_line(bytes);
  std::byte* scratch = team.scratch(2 * stride);
  if (scratch == nullptr) return Code::no_memory;
  Combiner sums{op, scratch, scratch + stride};
  copy_bytes(sums.mine, data, bytes);
  WEFT_COLL_TRY(fold_in(team, links, power, sums, count));
  if (power.me >= 0) {
    WEFT_COLL_TRY(halve(links, power, sums, count));
    const int part = first_part(power, power.me, power.size);
    const std::size_t begin = part_begin(count, power.size, part) * op.element_bytes;
    const std::size_t end = part_begin(count, power.size, part + 1) * op.element_bytes;
    copy_bytes(at(data, begin), sums.mine + begin, end - begin);
    WEFT_COLL_TRY(double_up(links, power, static_cast<std::byte*>(data), count, op.element_bytes));
  }
  return fold_out(team, links, power, data, bytes);
}

}  // namespace weft::coll
