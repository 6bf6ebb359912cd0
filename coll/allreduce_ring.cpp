// Allreduce around a ring (Patarasuk, Yuan 2009): n - 1 steps of reduce-scatter, n - 1 of
// allgather, 1/n of the vector each. Sends the least, and only to a neighbour, but in 2(n-1) steps;
// combines parts in rotated order, so the operation must commute.
#include "coll/algorithms.hpp"

namespace weft::coll {

Status allreduce_ring(Team& team, void* data, std::size_t count, const Reduction& op) {
  Links links(team, Collective::allreduce);
  const int n = team.size(), me = team.rank();
  const int right = (me + 1) % n, left = (me - 1 + n) % n;
  const std::size_t unit = op.element_bytes;
  const auto begin = [&](int part) { return part_begin(count, n, part); };
  std::byte* incoming = team.scratch((begin(1) - begin(0)) * unit);
  if (incoming == nullptr) return Code::no_memory;

  for (int step = 0; step < n - 1; ++step) {
    const int out = (me - step + n) % n, in = (me - step - 1 + 2 * n) % n;
    const std::size_t in_count = begin(in + 1) - begin(in);
    WEFT_COLL_TRY(links.exchange(at(data, begin(out) * unit), (begin(out + 1) - begin(out)) * unit,
                                 right, incoming, in_count * unit, left));
    if (in_count != 0) op.apply(incoming, at(data, begin(in) * unit), in_count, op.argument);
  }
  // Part me + 1 is complete here.
  for (int step = 0; step < n - 1; ++step) {
    const int out = (me + 1 - step + n) % n, in = (me - step + n) % n;
    WEFT_COLL_TRY(links.exchange(at(data, begin(out) * unit), (begin(out + 1) - begin(out)) * unit,
                                 right, at(data, begin(in) * unit),
                                 (begin(in + 1) - begin(in)) * unit, left));
  }
  return {};
}

}  // namespace weft::coll
