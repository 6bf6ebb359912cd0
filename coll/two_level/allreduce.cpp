// Allreduce over hosts: inside each host to its leader, among the leaders, and inside from the
// leader.
#include "coll/two_level/two_level.hpp"

namespace weft::coll {
namespace {

Status allreduce_piece(Team& team, const void* input, void* receive, std::size_t count,
                       const Reduction& op) {
  Hosts& hosts = *team.hosts();
  const bool leads = hosts.lead();
  const std::size_t bytes = count * op.element_bytes;
  if (!hosts.make_room(bytes)) return Code::no_memory;
  WEFT_COLL_TRY(reduce(hosts.inside(), input == receive ? nullptr : input, receive, count, op,
                       hosts.leader()));
  if (leads) WEFT_COLL_TRY(allreduce(hosts.across(), nullptr, receive, count, op));
  return bcast(hosts.inside(), receive, bytes, hosts.leader());
}

}  // namespace

Status two_level_allreduce(Team& team, const void* input, void* receive, std::size_t count,
                           const Reduction& op) {
  return in_pieces(count, op, [&](std::size_t offset, std::size_t num) {
    return allreduce_piece(team, at(input, offset), at(receive, offset), num, op);
  });
}

}  // namespace weft::coll
