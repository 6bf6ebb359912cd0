// Allgather in the smallest possible number of rounds, in place (plan/circulant.hpp).
// Cost: ceil(log2 n) alpha + (n - 1) bytes beta.
#include "coll/plan/circulant.hpp"

namespace weft::coll {

void allgather_circulant(Plan& plan, const Group& group, BufferRef blocks, std::size_t bytes) {
  // Short blocks are put in order at the end, so that no range takes two messages.
  constexpr std::size_t kShortBytes = 8 * 1024;
  const int n = group.size, me = group.rank;
  const Parts parts{n, index(n) * bytes, 1};
  if (index(n) * bytes > kShortBytes) return allgather_around(plan, {group}, blocks, parts);
  const BufferRef turned = plan.scratch(index(n) * bytes);  // begins with this member's block
  plan.copy(turned, blocks + index(me) * bytes, bytes);
  allgather_around(plan, {group, me}, turned, parts);
  plan.copy(blocks + index(me) * bytes, turned, index(n - me) * bytes);
  plan.copy(blocks, turned + index(n - me) * bytes, index(me) * bytes);
}

// Gathers the blocks contiguously and then copies them to their positions.
void allgatherv_circulant(Plan& plan, const Group& group, BufferRef blocks,
                          const std::size_t* counts, const std::ptrdiff_t* displacements) {
  const int n = group.size, me = group.rank;
  const Parts parts{n, 0, 1, counts};
  const BufferRef gathered = plan.scratch(parts.begin(n));
  const auto place = [&](int m) { return blocks + static_cast<std::size_t>(displacements[m]); };
  plan.copy(gathered + parts.begin(me), place(me), counts[me]);
  allgather_around(plan, {group}, gathered, parts);
  std::size_t begin = 0;
  for (int m = 0; m < n; begin += counts[m++])
    if (m != me) plan.copy(place(m), gathered + begin, counts[m]);
}

}  // namespace weft::coll
