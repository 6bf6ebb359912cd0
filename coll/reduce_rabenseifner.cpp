// Reduction of long vectors (Rabenseifner 2004): reduce-scatter by halving, then the parts are
// gathered at the root. Every member combines about one vector instead of log2(n) of them.
#include "coll/algorithms.hpp"
#include "coll/halving.hpp"

namespace weft::coll {

Status reduce_rabenseifner(Team& team, const void* input, void* receive, std::size_t count,
                           const Reduction& op, int root) {
  Links links(team, Collective::reduce);
  const PowerOfTwo power(team);
  const std::size_t bytes = count * op.element_bytes, stride = round_up_line(bytes);
  std::byte* scratch = team.scratch(2 * stride);
  if (scratch == nullptr) return Code::no_memory;
  Combiner sums{op, scratch, scratch + stride};
  copy_bytes(sums.mine, input, bytes);
  WEFT_COLL_TRY(fold_in(team, links, power, sums, count));
  if (power.me >= 0) WEFT_COLL_TRY(halve(links, power, sums, count));

  const auto part = [&](int place) { return first_part(power, place, power.size); };
  const auto begin = [&](int p) { return part_begin(count, power.size, p) * op.element_bytes; };
  if (team.rank() != root) {
    if (power.me < 0) return {};
    const int mine = part(power.me);
    return links.send(sums.mine + begin(mine), begin(mine + 1) - begin(mine), root);
  }
  for (int place = 0; place < power.size; ++place) {
    const int p = part(place);
    if (place == power.me)
      copy_bytes(at(receive, begin(p)), sums.mine + begin(p), begin(p + 1) - begin(p));
    else
      WEFT_COLL_TRY(
          links.receive(at(receive, begin(p)), begin(p + 1) - begin(p), power.member(place)));
  }
  return {};
}

}  // namespace weft::coll
