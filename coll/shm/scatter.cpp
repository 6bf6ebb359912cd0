// Scatter inside a host: the root fills its slot, the others read it; long blocks go one by one.
#include "coll/shm/collectives.hpp"

namespace weft::coll {
namespace {

// From this size on the blocks of a scatter are passed on one by one.
constexpr std::size_t kOneByOneBytes = 4096;

// The blocks of such a round, in the root's cell, which holds no data then; bits by member.
struct Blocks {
  std::uint64_t address;  // of the root's send buffer
  std::uint64_t taken;    // claimed: by the root, which copies it to the bank, or by its reader
  std::uint64_t there;    // copied to the root's bank
};
static_assert(sizeof(Blocks) <= kCellBytes);
constexpr int kMaxBlocks = 64;

Blocks& blocks(Cell& cell) noexcept { return *reinterpret_cast<Blocks*>(cell.data); }

// Claims a block. Returns false if it was claimed before.
bool take_block(Blocks& blocks, int member) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << member;
  // relaxed: the root's memory was published with the cell.
  return (std::atomic_ref(blocks.taken).fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
}

// The root writes block after block to its bank. Readers that arrive meanwhile need not wait for
// theirs: they read it from the root's buffer, and then the root waits for them.
Status send_blocks(ShmTeam& team, const Own& own, const void* send, std::size_t bytes,
                   std::size_t offset, std::size_t piece) {
  Blocks& all = blocks(*own.cell);
  all = {reinterpret_cast<std::uintptr_t>(send), 0, 0};
  team.publish_and_ring_each(own.cell);
  std::uint64_t read_by_others = 0;
  for (int r = 0; r < team.size(); ++r) {
    if (r == team.rank()) continue;
    const std::uint64_t bit = std::uint64_t{1} << r;
    if (!take_block(all, r)) {
      read_by_others |= bit;
      continue;
    }
    team.fill(own.data + index(r) * piece, at(send, index(r) * bytes + offset), piece);
    // release: the block; pairs with receive_block().
    std::atomic_ref(all.there).fetch_or(bit, std::memory_order_release);
    team.ring(r);
  }
  for (int r = 0; r < team.size(); ++r)
    if ((read_by_others >> r & 1) != 0 && !team.wait_until_done(r)) return Code::peer_lost;
  return {};
}

Status receive_block(ShmTeam& team, void* receive, std::size_t bytes, std::size_t offset,
                     std::size_t piece, int root) {
  if (!team.wait_for(root)) return Code::peer_lost;
  Blocks& all = blocks(team.cell(root));
  const int me = team.rank();
  if (piece >= team.direct_min_bytes() && take_block(all, me))
    return team.read(root, receive, all.address + index(me) * bytes + offset, piece)
               ? Code::ok
               : copy_failure();
  // acquire: pairs with send_blocks().
  const auto there = [&] {
    return (std::atomic_ref(all.there).load(std::memory_order_acquire) >> me & 1) != 0;
  };
  if (!team.wait(there)) return Code::peer_lost;
  copy_bytes(receive, slot(team, root, kBankBytes) + index(me) * piece, piece);
  return {};
}

}  // namespace

Status shm_scatter(ShmTeam& team, const void* send, void* receive, std::size_t bytes, int root) {
  const int n = team.size();
  // The root would copy all blocks alone: many short ones, too, are better read by their owners.
  // Crowded, the root's wait for the readers costs more, as long as a bank holds all blocks.
  if (team.is_crowded()
          ? index(n) * bytes > kBankBytes && bytes >= team.direct_min_bytes()
          : index(n - 1) * bytes / 4 >= team.direct_min_bytes() || bytes >= team.direct_min_bytes())
    return direct_scatter(team, send, receive, bytes, root);
  const std::size_t most = std::min(kBankBytes / index(n), team.piece_bytes()) / kLine * kLine;
  Status failed;
  for (std::size_t offset = 0; offset < bytes; offset += most) {
    const std::size_t piece = std::min(most, bytes - offset), all = index(n) * piece;
    const bool one_by_one = n > 2 && n <= kMaxBlocks && piece >= kOneByOneBytes;
    team.begin();
    if (team.rank() == root) {
      const Own own(team, all);
      if (own.cell == nullptr) return Code::peer_lost;
      if (one_by_one) {
        if (Status status = send_blocks(team, own, send, bytes, offset, piece); !status)
          return status;
      } else {
        for (int r = 0; r < n; ++r)
          if (r != root)
            team.fill(own.data + index(r) * piece, at(send, index(r) * bytes + offset), piece);
        team.publish_and_ring_each(own.cell);
      }
    } else if (one_by_one) {
      const Status received = receive_block(team, at(receive, offset), bytes, offset, piece, root);
      if (!received) failed = received;
    } else {
      if (!team.wait_for(root)) return Code::peer_lost;
      copy_bytes(at(receive, offset), slot(team, root, all) + index(team.rank()) * piece, piece);
    }
    team.end();
  }
  return failed;
}

}  // namespace weft::coll
