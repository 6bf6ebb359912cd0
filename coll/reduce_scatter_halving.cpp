// Reduce-scatter by recursive halving for parts of any length: the members are halved, and each
// half gets from its partners what the half's members will own. log2(n) steps. With a number of
// members that is no power of two, the first ones act for two. Combines out of rank order.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/halving.hpp"

namespace weft::coll {

Status reduce_scatter_halving(Team& team, const void* input, void* receive,
                              const std::size_t* counts, const Reduction& op) {
  Links links(team, Collective::reduce_scatter);
  const PowerOfTwo power(team);
  const int n = team.size();
  const std::size_t unit = op.element_bytes;
  std::vector<std::size_t> begin(index(n) + 1, 0);  // of each member's part
  for (int r = 0; r < n; ++r) begin[index(r) + 1] = begin[index(r)] + counts[r];
  const std::size_t count = begin[index(n)], stride = round_up_line(count * unit);
  std::byte* scratch = team.scratch(2 * stride);
  if (scratch == nullptr) return Code::no_memory;
  Combiner sums{op, scratch, scratch + stride};
  copy_bytes(sums.mine, input, count * unit);
  WEFT_COLL_TRY(fold_in(team, links, power, sums, count));

  // The parts of the members that the places before `place` act for end where those of `place`
  // begin: places own whole, adjacent members.
  const auto start = [&](int place) {
    return begin[index(place <= power.extra ? 2 * place : place + power.extra)];
  };
  if (power.me >= 0) {
    int first = 0;
    for (int half = power.size / 2; half > 0; half /= 2) {
      const int partner = power.me ^ half;
      const bool upper = (power.me & half) != 0;
      const std::size_t low = start(first), middle = start(first + half),
                        high = start(first + 2 * half);
      const std::size_t kept = upper ? middle : low, kept_end = upper ? high : middle;
      const std::size_t given = upper ? low : middle, given_end = upper ? middle : high;
      WEFT_COLL_TRY(links.exchange(sums.mine + given * unit, (given_end - given) * unit,
                                   power.member(partner), sums.other + kept * unit,
                                   (kept_end - kept) * unit, power.member(partner)));
      sums.from_left(kept, kept_end - kept);
      if (upper) first += half;
    }
  }
  const int me = team.rank();
  const std::size_t mine = counts[me] * unit;
  if (me < 2 * power.extra) {
    if (me % 2 == 0) return links.receive(receive, mine, me + 1);
    WEFT_COLL_TRY(
        links.send(sums.mine + begin[index(me) - 1] * unit, counts[me - 1] * unit, me - 1));
  }
  copy_bytes(receive, sums.mine + begin[index(me)] * unit, mine);
  return {};
}

}  // namespace weft::coll
