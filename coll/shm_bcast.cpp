// Barrier, broadcast and scatter inside a host: the root fills its slot, the others read it.
#include "coll/shm_collectives.hpp"

namespace weft::coll {
namespace {

// From this size on the blocks of a scatter are read one by one, while the next are written.
constexpr std::size_t kReadOneByOneBytes = 4096;

// How many blocks of the round are there; in the cell, which holds no data then.
std::atomic_ref<std::uint64_t> blocks_there(Cell& cell) noexcept {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(cell.data));
}

void publish_one_by_one(ShmTeam& team, const Own& own, const void* send, std::size_t bytes,
                        std::size_t offset, std::size_t piece) {
  const auto there = blocks_there(*own.cell);
  there.store(0, std::memory_order_relaxed);  // published with the cell
  team.publish(own.cell);
  for (int r = 0; r < team.size(); ++r) {
    if (r != team.rank())
      team.fill(own.data + index(r) * piece, at(send, index(r) * bytes + offset), piece);
    there.store(index(r) + 1, std::memory_order_release);  // pairs with wait_for_block()
    if (r != team.rank()) team.ring(r);
  }
}

bool wait_for_block(ShmTeam& team, int root) {
  return team.wait_for(root) && team.wait([&] {
    // acquire: pairs with publish_one_by_one().
    return blocks_there(team.cell(root)).load(std::memory_order_acquire) > index(team.rank());
  });
}

}  // namespace

Status shm_barrier(ShmTeam& team) {
  team.begin();
  if (team.is_crowded()) {
    // The others would soon wait for the usual root, and who waits has to be scheduled once more.
    constexpr int kUsualRoot = 0;
    if (!team.wait_for_all_behind(kUsualRoot)) return Code::peer_lost;
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
      copy_bytes(at(data, offset), arrived(team, root, piece, 0, piece), piece);
    }
    team.end();
  }
  return {};
}

Status shm_scatter(ShmTeam& team, const void* send, void* receive, std::size_t bytes, int root) {
  const int n = team.size();
  // The root would copy all blocks alone: many short ones, too, are better read by their owners.
  // Crowded, the root's wait for the readers costs more, as long as a bank holds all blocks.
  if (team.is_crowded()
          ? index(n) * bytes > kBankBytes && bytes >= team.direct_min_bytes()
          : index(n - 1) * bytes / 4 >= team.direct_min_bytes() || bytes >= team.direct_min_bytes())
    return direct_scatter(team, send, receive, bytes, root);
  const std::size_t most = std::min(kBankBytes / index(n), team.piece_bytes()) / kLine * kLine;
  for (std::size_t offset = 0; offset < bytes; offset += most) {
    const std::size_t piece = std::min(most, bytes - offset), all = index(n) * piece;
    const bool one_by_one = n > 2 && piece >= kReadOneByOneBytes;
    team.begin();
    if (team.rank() == root) {
      const Own own(team, all);
      if (own.cell == nullptr) return Code::peer_lost;
      if (one_by_one) {
        publish_one_by_one(team, own, send, bytes, offset, piece);
      } else {
        for (int r = 0; r < n; ++r)
          if (r != root)
            team.fill(own.data + index(r) * piece, at(send, index(r) * bytes + offset), piece);
        team.publish_and_ring_each(own.cell);
      }
    } else {
      if (!(one_by_one ? wait_for_block(team, root) : team.wait_for(root))) return Code::peer_lost;
      copy_bytes(at(receive, offset), arrived(team, root, all, index(team.rank()) * piece, piece),
                 piece);
    }
    team.end();
  }
  return {};
}

}  // namespace weft::coll
