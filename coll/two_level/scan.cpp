// Prefix reductions over hosts that hold the members in order: each host's sum goes to its leader,
// the leaders compute the sum of all hosts before, and that is applied before the prefixes of the
// host's own members.
#include "coll/two_level/two_level.hpp"

namespace weft::coll {
namespace {

Status scan_piece(Team& team, const void* input, void* receive, std::size_t count,
                  const Reduction& op, bool exclusive) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead(), is_first_host = hosts.mine() == 0;
  const std::size_t bytes = count * op.element_bytes;
  void* before = team.scratch(bytes);
  if (before == nullptr || !hosts.make_room(bytes)) return Code::no_memory;
  Team& inside = hosts.inside();
  WEFT_COLL_TRY(reduce(inside, input, before, count, op, hosts.leader()));
  if (leads) WEFT_COLL_TRY(exscan(hosts.across(), nullptr, before, count, op));
  const void* send = input == receive ? nullptr : input;
  WEFT_COLL_TRY(exclusive ? exscan(inside, send, receive, count, op)
                          : scan(inside, send, receive, count, op));
  if (is_first_host) return {};
  WEFT_COLL_TRY(bcast(inside, before, bytes, hosts.leader()));
  if (exclusive && inside.rank() == 0)
    copy_bytes(receive, before, bytes);
  else
    op.apply(before, receive, count, op.argument);
  return {};
}

}  // namespace

Status two_level_scan(Team& team, const void* input, void* receive, std::size_t count,
                      const Reduction& op, bool exclusive) {
  return in_pieces(count, op, [&](std::size_t offset, std::size_t num) {
    return scan_piece(team, at(input, offset), at(receive, offset), num, op, exclusive);
  });
}

}  // namespace weft::coll
