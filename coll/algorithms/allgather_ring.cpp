// Allgather around a ring: every step passes on the block that arrived last. Each member sends only
// to its neighbour, and each block straight to its position: for long blocks.
// Cost: (n - 1) (alpha + bytes beta).
#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {
namespace {

template <class Begin, class Length>
void ring(Plan& plan, const Group& group, BufferRef blocks, const Begin& begin,
          const Length& length) {
  const int n = group.size, me = group.rank;
  const int right = group.team_rank((me + 1) % n), left = group.team_rank((me - 1 + n) % n);
  int received = Plan::kNone, sent = Plan::kNone;
  for (int step = 0; step < n - 1; ++step) {
    const int out = (me - step + n) % n, in = (me - step - 1 + 2 * n) % n;
    // An empty block is not sent; both sides know its length.
    const int came =
        length(in) == 0 ? Plan::kNone : plan.receive(left, blocks + begin(in), length(in));
    if (length(out) != 0) sent = plan.send(right, blocks + begin(out), length(out), received, sent);
    received = came;
  }
}

}  // namespace

void allgather_ring(Plan& plan, const Group& group, BufferRef blocks, std::size_t bytes) {
  ring(
      plan, group, blocks, [&](int member) { return index(member) * bytes; },
      [&](int) { return bytes; });
}

void allgatherv_ring(Plan& plan, const Group& group, BufferRef blocks, const std::size_t* counts,
                     const std::ptrdiff_t* displacements) {
  ring(
      plan, group, blocks,
      [&](int member) { return static_cast<std::size_t>(displacements[member]); },
      [&](int member) { return counts[member]; });
}

}  // namespace weft::coll
