// Reduction along a binomial tree. Each node combines its own vector with those of the subtrees to
// its right, nearest first, which keeps rank order. An operation that does not commute is reduced
// to member 0, whose tree is in rank order, and passed on to the root.
#include "coll/algorithms.hpp"
#include "coll/combine.hpp"

namespace weft::coll {

Status reduce_binomial(Team& team, const void* input, void* receive, std::size_t count,
                       const Reduction& op, int root) {
  Links links(team, Collective::reduce);
  const int n = team.size();
  const int top = op.commutative ? root : 0;
  const int me = (team.rank() - top + n) % n;
  const auto world = [&](int relative) { return (relative + top) % n; };
  const std::size_t bytes = count * op.element_bytes;

  const std::byte* result = static_cast<const std::byte*>(input);
  if (me % 2 == 0) {  // not a leaf
    const std::size_t stride = round_up_line(bytes);
    std::byte* scratch = team.scratch(2 * stride);
    if (scratch == nullptr) return Code::no_memory;
    Combiner sums{op, scratch, scratch + stride};
    copy_bytes(sums.mine, input, bytes);
    for (int mask = 1; mask < n && (me & mask) == 0; mask *= 2) {
      if (me + mask >= n) continue;
      WEFT_COLL_TRY(links.receive(sums.other, bytes, world(me + mask)));
      sums.from_right(count);
    }
    result = sums.mine;
  }
  if (me != 0)
    WEFT_COLL_TRY(links.send(result, bytes, world(me & (me - 1))));
  else if (top == root)
    copy_bytes(receive, result, bytes);
  else
    WEFT_COLL_TRY(links.send(result, bytes, root));
  if (top != root && team.rank() == root) WEFT_COLL_TRY(links.receive(receive, bytes, top));
  return {};
}

}  // namespace weft::coll
