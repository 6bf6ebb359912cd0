// Scatter by sending every block straight from its position; all sends are started at once. If
// blocks differ in length, only the root and the receiver need to know how long one is.
// Cost: (n - 1) (alpha + bytes beta) at the root.
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

void scatter_linear(Plan& plan, const Group& group, BufferRef send, BufferRef receive,
                    std::size_t bytes, int root) {
  if (group.rank != root) {
    plan.receive(group.team_rank(root), receive, bytes);
    return;
  }
  for (int r = 0; r < group.size; ++r)
    if (r != root) plan.send(group.team_rank(r), send + index(r) * bytes, bytes);
}

void scatterv_linear(Plan& plan, const Group& group, BufferRef send, const std::size_t* counts,
                     const std::ptrdiff_t* displacements, BufferRef receive,
                     std::size_t receive_bytes, int root) {
  if (group.rank != root) {
    if (receive_bytes != 0) plan.receive(group.team_rank(root), receive, receive_bytes);
    return;
  }
  for (int r = 0; r < group.size; ++r)
    if (r != root && counts[r] != 0)
      plan.send(group.team_rank(r), send + static_cast<std::size_t>(displacements[r]), counts[r]);
}

}  // namespace weft::coll
