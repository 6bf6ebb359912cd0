// Barrier and broadcast inside a host: the root fills its slot, the others read it.
#include "coll/shm/collectives.hpp"

namespace weft::coll {

Status shm_barrier(ShmTeam& team) {
  if (team.climbs()) return tree_barrier(team);
  team.begin();
  if (team.is_crowded()) {
    if (!team.wait_for_all()) return Code::peer_lost;
  } else {
    Cell* own = team.open_cell();
    if (own == nullptr) return Code::peer_lost;
    team.publish_and_ring_each(own);
    if (!team.wait_for_each()) return Code::peer_lost;
  }
  team.end();
  return {};
}

Status shm_bcast(ShmTeam& team, void* data, std::size_t bytes, int root) {
  // Crowded, the root's wait for the readers costs more than the second copy.
  if (!team.is_crowded() && bytes >= team.direct_min_bytes())
    return direct_bcast(team, data, bytes, root);
  const std::size_t most = team.piece_bytes();
  for (std::size_t offset = 0; offset < bytes; offset += most) {
    const std::size_t piece = std::min(most, bytes - offset);
    team.begin();
    if (team.rank() == root) {
      const Own own(team, piece);
      if (own.cell == nullptr) return Code::peer_lost;
      team.fill(own.data, at(data, offset), piece);
      team.publish_and_ring_each(own.cell);
    } else {
      if (!team.wait_for(root)) return Code::peer_lost;
      copy_bytes(at(data, offset), slot(team, root, piece), piece);
    }
    team.end();
  }
  return {};
}

}  // namespace weft::coll
