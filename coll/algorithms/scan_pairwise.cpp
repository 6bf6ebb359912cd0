// Prefix reductions of long vectors: every member gets one part of all vectors, reduces it member
// by member, and sends each member its prefix back (plan/pairwise.hpp). Keeps rank order.
// Cost: 2 (n - 1) alpha / window + 2 (n - 1) / n bytes beta + (n - 1) / n bytes gamma.
#include "coll/plan/circulant.hpp"
#include "coll/plan/pairwise.hpp"

namespace weft::coll {

void scan_pairwise(Plan& plan, const Group& group, BufferRef data, Vector vector, bool exclusive) {
  const int n = group.size, me = group.rank;
  const Parts parts{n, vector.count, vector.unit};
  const std::size_t own = parts.bytes(me, 1);
  const auto part = [&](int member) {
    return Block{data + parts.begin(member) * vector.unit, parts.bytes(member, 1)};
  };
  const BufferRef prefixes = plan.scratch(index(n) * own);
  const auto prefix = [&](int member) { return Block{prefixes + index(member) * own, own}; };
  write_pairwise(plan, group, part, prefix);
  plan.wait_all();
  for (int member = 1; member < n; ++member)
    plan.reduce(prefix(member - 1).buffer, prefix(member).buffer, own / vector.unit);
  // Rank 0 of an exclusive scan keeps its data.
  const auto is_kept = [&](int member) { return exclusive && member == 0; };
  write_pairwise(
      plan, group,
      [&](int to) {
        return is_kept(to) ? Block{prefixes, 0} : prefix(exclusive ? to - 1 : to);
      },
      [&](int from) {
        return is_kept(me) ? Block{data, 0} : part(from);
      });
}

}  // namespace weft::coll
