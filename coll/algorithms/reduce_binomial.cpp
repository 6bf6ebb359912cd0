// Reduction along a binomial tree. Each node reduces its own vector with those of the subtrees to
// its right, nearest first, which keeps rank order. An operation that does not commute is reduced
// to member 0, whose tree is in rank order, and the result is sent to the root.
// Cost: ceil(log2 n) (alpha + bytes beta + bytes gamma).
#include "coll/plan/halving.hpp"

namespace weft::coll {

void reduce_binomial(Plan& plan, const Group& group, BufferRef input, BufferRef output,
                     Vector vector, bool commutative, int root) {
  const int n = group.size;
  const int top = commutative ? root : 0;
  const Circle circle{group, top};
  const int me = circle.me();
  const std::size_t bytes = vector.bytes();

  BufferRef result = input;
  if (me % 2 == 0 && me + 1 < n) {  // not a leaf
    Reducer sums = Reducer::of(plan, input, vector);
    for (int mask = 1; mask < n && (me & mask) == 0; mask *= 2) {
      if (me + mask >= n) continue;
      plan.receive(circle.team_rank(me + mask), sums.other, bytes);
      plan.wait_all();
      sums.from_right(plan, 0, vector.count);
    }
    result = sums.mine;
  }
  if (me != 0)
    plan.send(circle.team_rank(me & (me - 1)), result, bytes);
  else if (top == root)
    plan.copy(output, result, bytes);
  else
    plan.send(group.team_rank(root), result, bytes);
  if (top != root && group.rank == root) {
    plan.wait_all();  // the memory sent from may be overwritten next
    plan.receive(group.team_rank(top), output, bytes);
  }
}

}  // namespace weft::coll
