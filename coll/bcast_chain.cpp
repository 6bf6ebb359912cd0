// Broadcast along a pipelined chain: every member passes pieces on while the next ones come in.
// With p pieces it takes p + n - 2 steps of one piece, and each member sends the data once.
#include <algorithm>

#include "coll/algorithms.hpp"

namespace weft::coll {

Status bcast_chain(Team& team, void* data, std::size_t bytes, int root) {
  constexpr std::size_t kPieceBytes = 128 * 1024;
  Links links(team, Collective::bcast);
  const int n = team.size();
  const int me = (team.rank() - root + n) % n;
  const int from = (team.rank() - 1 + n) % n, to = (team.rank() + 1) % n;
  const bool has_next = me + 1 < n;
  std::unique_ptr<tagged::Request> sending;
  Status status;
  for (std::size_t offset = 0; status && offset < bytes; offset += kPieceBytes) {
    const std::size_t length = std::min(kPieceBytes, bytes - offset);
    if (me != 0) status = links.receive(at(data, offset), length, from);
    // One send stays under way while the next piece is received.
    if (Status sent = links.finish(sending); status && !sent) status = sent;
    if (status && has_next) links.start_send(sending, at(data, offset), length, to);
  }
  const Status sent = links.finish(sending);
  return status ? sent : status;
}

}  // namespace weft::coll
