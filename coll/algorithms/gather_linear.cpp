// Gather by receiving every block straight at its position; all receives are posted at once. If
// blocks differ in length, only the root and the sender need to know how long one is.
// Cost: (n - 1) (alpha + bytes beta) at the root.
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void gather_linear(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                   std::size_t bytes, int root) {
  if (group.rank != root) {
    plan.send(group.team_rank(root), send, bytes);
    return;
  }
  for (int r = 0; r < group.size; ++r)
    if (r != root) plan.receive(group.team_rank(r), receive + index(r) * bytes, bytes);
}

void gatherv_linear(Plan& plan, const Group& group, BufferRef send, std::size_t send_bytes,
                    BufferRef receive, const std::size_t* counts,
                    const std::ptrdiff_t* displacements, int root) {
  if (group.rank != root) {
    if (send_bytes != 0) plan.send(group.team_rank(root), send, send_bytes);
    return;
  }
  for (int r = 0; r < group.size; ++r)
    if (r != root && counts[r] != 0)
      plan.receive(group.team_rank(r), receive + static_cast<std::size_t>(displacements[r]),
                   counts[r]);
}

}  // namespace weft::coll
