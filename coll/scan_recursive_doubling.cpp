// Prefix reductions by doubling: `sums` combines the vectors of the aligned group of 2^k members
// around this one, `prefix` those of it that are not above this member. Keeps rank order.
#include "coll/algorithms.hpp"
#include "coll/combine.hpp"

namespace weft::coll {

Status scan_recursive_doubling(Team& team, void* data, std::size_t count, const Reduction& op,
                               bool exclusive) {
  Links links(team, Collective::scan);
  const int n = team.size(), me = team.rank();
  const std::size_t bytes = count * op.element_bytes, stride = round_up_line(bytes);
  std::byte* scratch = team.scratch(3 * stride);
  if (scratch == nullptr) return Code::no_memory;
  Combiner sums{op, scratch, scratch + stride};
  std::byte* prefix = scratch + 2 * stride;
  copy_bytes(sums.mine, data, bytes);
  // An exclusive prefix is empty at first: an inclusive one starts with this member's vector.
  bool has_prefix = !exclusive;
  if (has_prefix) copy_bytes(prefix, data, bytes);

  for (int distance = 1; distance < n; distance *= 2) {
    const int partner = me ^ distance;
    if (partner >= n) continue;  // its group is cut off; nobody above needs ours through it
    WEFT_COLL_TRY(links.exchange(sums.mine, bytes, partner, sums.other, bytes, partner));
    if (partner > me) {
      sums.from_right(count);
      continue;
    }
    if (has_prefix)
      op.apply(sums.other, prefix, count, op.argument);
    else
      copy_bytes(prefix, sums.other, bytes);
    has_prefix = true;
    sums.from_left(0, count);
  }
  if (has_prefix) copy_bytes(data, prefix, bytes);
  return {};
}

}  // namespace weft::coll
