// Reduction over hosts: inside each to its leader, then from those to the root, which leads its
// own.
#include "coll/two_level.hpp"

namespace weft::coll {

namespace {

Status reduce_piece(Team& team, const void* input, void* receive, std::size_t count,
                    const Reduction& op, int root) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead(root), is_root = team.rank() == root;
  const std::size_t bytes = count * op.element_bytes;
  void* sum = is_root ? receive : nullptr;
  if (leads && !is_root) {
    sum = team.scratch(bytes);
    if (sum == nullptr) return Code::no_memory;
  }
  if (!hosts.make_room(bytes)) return Code::no_memory;
  WEFT_COLL_TRY(
      reduce(hosts.inside(), input == sum ? nullptr : input, sum, count, op, hosts.leader()));
  if (!leads) return {};
  return reduce(hosts.across(), is_root ? nullptr : sum, receive, count, op, hosts.host(root));
}

}  // namespace

Status two_level_reduce(Team& team, const void* input, void* receive, std::size_t count,
                        const Reduction& op, int root) {
  return in_pieces(count, op, [&](std::size_t offset, std::size_t num) {
    return reduce_piece(team, at(input, offset), receive == nullptr ? nullptr : at(receive, offset),
                        num, op, root);
  });
}

}  // namespace weft::coll
