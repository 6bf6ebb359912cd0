// Gather, allgather and all-to-all inside a host: every member fills a slot, and the readers copy
// from there straight to the block's position.
#include "coll/shm/collectives.hpp"

namespace weft::coll {
Status shm_gather(ShmTeam& team, const void* send, void* receive, std::size_t bytes, int root) {
  // With more than two members it is better that leaves need not wait for the root.
  if (team.is_pair() && bytes >= team.direct_min_bytes())
    return direct_gather(team, send, receive, bytes, root);
  const std::size_t most = team.piece_bytes();
  for (std::size_t offset = 0; offset < bytes; offset += most) {
    const std::size_t piece = std::min(most, bytes - offset);
    team.begin();
    if (team.rank() != root) {
      const Own own(team, piece, root);
      if (own.cell == nullptr) return Code::peer_lost;
      team.fill(own.data, at(send, offset), piece);
      team.publish(own.cell);
      team.ring(root);
    } else {
      for (int r = 0; r < team.size(); ++r) {
        if (r == root) continue;
        if (!team.wait_for(r)) return Code::peer_lost;
        copy_bytes(at(receive, index(r) * bytes + offset), slot(team, r, piece), piece);
      }
    }
    team.end();
  }
  return {};
}

Status shm_allgather(ShmTeam& team, const void* send, void* receive, std::size_t bytes) {
  // Crowded, the second wait costs more than the one copy into the bank that many readers share.
  if ((team.is_crowded() ? bytes / 8 : bytes) >= team.direct_min_bytes())
    return direct_allgather(team, send, receive, bytes);
  const int n = team.size(), me = team.rank();
  const std::size_t most = team.piece_bytes();
  for (std::size_t offset = 0; offset < bytes; offset += most) {
    const std::size_t piece = std::min(most, bytes - offset);
    team.begin();
    const Own own(team, piece);
    if (own.cell == nullptr) return Code::peer_lost;
    std::byte* place = at(receive, index(me) * bytes + offset);
    team.fill(own.data, send != nullptr ? at(send, offset) : place, piece);
    team.publish_and_ring(own.cell);
    if (send != nullptr) copy_bytes(place, at(send, offset), piece);
    if (!team.wait_for_all()) return Code::peer_lost;
    for (int step = 1; step < n; ++step) {
      const int r = (me + step) % n;
      copy_bytes(at(receive, index(r) * bytes + offset), slot(team, r, piece), piece);
    }
    team.end();
  }
  return {};
}

Status shm_alltoall(ShmTeam& team, const void* send, void* receive, std::size_t bytes) {
  const int n = team.size(), me = team.rank();
  // Crowded, the second wait costs more than the second copy, as long as a bank holds all blocks.
  if (bytes >= team.direct_min_bytes() && (!team.is_crowded() || index(n) * bytes > kBankBytes))
    return direct_alltoall(team, send, receive, bytes);
  const std::size_t most = std::min(kBankBytes / index(n), team.piece_bytes()) / kLine * kLine;
  copy_bytes(at(receive, index(me) * bytes), at(send, index(me) * bytes), bytes);
  for (std::size_t offset = 0; offset < bytes; offset += most) {
    const std::size_t piece = std::min(most, bytes - offset), all = index(n) * piece;
    team.begin();
    const Own own(team, all);
    if (own.cell == nullptr) return Code::peer_lost;
    for (int r = 0; r < n; ++r)
      if (r != me)
        team.fill(own.data + index(r) * piece, at(send, index(r) * bytes + offset), piece);
    team.publish_and_ring(own.cell);
    if (!team.wait_for_all()) return Code::peer_lost;
    for (int step = 1; step < n; ++step) {
      const int r = (me + step) % n;
      copy_bytes(at(receive, index(r) * bytes + offset), slot(team, r, all) + index(me) * piece,
                 piece);
    }
    team.end();
  }
  return {};
}

}  // namespace weft::coll
