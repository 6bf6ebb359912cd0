// Reductions inside a host. Vectors are reduced straight from the slots, in rank order from the
// right (a0 op (a1 op (a2 op a3))), along a tree group by group, so that the result does not depend
// on the order of arrival, and operations need not commute.
#include "coll/shm/collectives.hpp"

namespace weft::coll {
namespace {

// The number of elements in one round.
std::size_t piece_count(std::size_t bytes, const Reduction& op) noexcept {
  return std::max<std::size_t>(1, bytes / op.element_bytes);
}

// Trees reduce group by group.
bool goes_along_tree(const ShmTeam& team, const Reduction& op) noexcept {
  return team.climbs() && (op.commutative || team.tree().is_in_order());
}

// into = slot(first) op ... op slot(last) over `count` elements, `offset` bytes into each slot of
// `slot_bytes`.
void reduce_slots(ShmTeam& team, std::byte* into, int first, int last, std::size_t slot_bytes,
                  std::size_t offset, std::size_t count, const Reduction& op) {
  const std::size_t bytes = count * op.element_bytes;
  copy_bytes(into, slot(team, last, slot_bytes) + offset, bytes);
  for (int r = last - 1; r >= first; --r)
    op.apply(slot(team, r, slot_bytes) + offset, into, count, op.argument);
}

// A pair reduces long vectors by the kernel's copies.
bool is_direct(const ShmTeam& team, std::size_t bytes) noexcept {
  return team.is_pair() && bytes >= team.direct_min_bytes();
}

// Crowded: the member that arrives last reduces all vectors; the others only fetch the result.
Status allreduce_by_last(ShmTeam& team, const void* input, void* receive, std::size_t count,
                         const Reduction& op) {
  const std::size_t bytes = count * op.element_bytes;
  team.begin();
  const Own own(team, bytes);
  if (own.cell == nullptr) return Code::peer_lost;
  team.fill(own.data, input, bytes);
  std::byte* result = bytes <= kCellBytes ? team.result_cell().data : team.result_bank();
  if (team.arrive_last()) {
    reduce_slots(team, result, 0, team.size() - 1, bytes, 0, count, op);
    team.publish_result();
  } else if (!team.wait_for_result()) {
    return Code::peer_lost;
  }
  copy_bytes(receive, result, bytes);
  team.end();
  return {};
}

// Every member reduces all vectors by itself.
Status allreduce_by_all(ShmTeam& team, const void* input, void* receive, std::size_t count,
                        const Reduction& op) {
  const std::size_t bytes = count * op.element_bytes;
  team.begin();
  const Own own(team, bytes);
  if (own.cell == nullptr) return Code::peer_lost;
  team.fill(own.data, input, bytes);
  team.publish_and_ring(own.cell);
  if (!team.wait_for_all()) return Code::peer_lost;
  reduce_slots(team, static_cast<std::byte*>(receive), 0, team.size() - 1, bytes, 0, count, op);
  team.end();
  return {};
}

// Every member reduces one part of the vector and publishes it: of n vectors each member reads two
// instead of n.
Status allreduce_by_parts(ShmTeam& team, const void* input, void* receive, std::size_t count,
                          const Reduction& op) {
  const int n = team.size(), me = team.rank();
  const std::size_t bytes = count * op.element_bytes;
  // Parts are full elements; the shares are as equal as possible.
  const auto begin_of = [&](int r) { return count * index(r) / index(n) * op.element_bytes; };
  const std::size_t first = begin_of(me), length = begin_of(me + 1) - first;
  std::byte* mine = at(receive, first);
  {
    team.begin();
    const Own own(team, bytes);
    if (own.cell == nullptr) return Code::peer_lost;
    team.fill(own.data, input, bytes);
    team.publish_and_ring(own.cell);
    if (!team.wait_for_all()) return Code::peer_lost;
    if (length > 0) reduce_slots(team, mine, 0, n - 1, bytes, first, length / op.element_bytes, op);
    team.end();
  }
  team.begin();
  const Own own(team, length);
  if (own.cell == nullptr) return Code::peer_lost;
  team.fill(own.data, mine, length);
  team.publish_and_ring(own.cell);
  if (!team.wait_for_all()) return Code::peer_lost;
  for (int step = 1; step < n; ++step) {
    const int r = (me + step) % n;
    const std::size_t part = begin_of(r + 1) - begin_of(r);
    copy_bytes(at(receive, begin_of(r)), slot(team, r, part), part);
  }
  team.end();
  return {};
}

}  // namespace

Status shm_allreduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                     const Reduction& op) {
  // From this length on the second wait costs less than reading all vectors entirely.
  constexpr std::size_t kPartsMin = 4096;
  constexpr std::size_t kPartsPiece = 128 * 1024;
  const std::size_t total = count * op.element_bytes;
  if (is_direct(team, total)) return direct_allreduce(team, input, receive, count, op);
  const bool parts = !team.is_crowded() && total >= kPartsMin;
  const std::size_t most = piece_count(parts ? kPartsPiece : team.piece_bytes(), op);
  const auto one = team.is_crowded()           ? allreduce_by_last
                   : parts                     ? allreduce_by_parts
                   : goes_along_tree(team, op) ? tree_allreduce
                                               : allreduce_by_all;
  for (std::size_t first = 0; first < count; first += most) {
    const std::size_t offset = first * op.element_bytes;
    WEFT_COLL_TRY(
        one(team, at(input, offset), at(receive, offset), std::min(most, count - first), op));
  }
  return {};
}

Status shm_reduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                  const Reduction& op, int root) {
  const int n = team.size();
  if (is_direct(team, count * op.element_bytes))
    return direct_reduce(team, input, receive, count, op, root);
  // Shorter pieces than elsewhere: the root starts earlier, and both its vector and a piece stay in
  // its first-level cache.
  constexpr std::size_t kMostBytes = 8 * 1024;
  const std::size_t most = piece_count(
      team.is_crowded() ? team.piece_bytes() : std::min(kMostBytes, team.piece_bytes()), op);
  for (std::size_t first = 0; first < count; first += most) {
    const std::size_t piece = std::min(most, count - first);
    const std::size_t offset = first * op.element_bytes, bytes = piece * op.element_bytes;
    if (goes_along_tree(team, op)) {
      // Members other than the root may have no `receive`.
      void* into = team.rank() == root ? at(receive, offset) : nullptr;
      WEFT_COLL_TRY(tree_reduce(team, at(input, offset), into, piece, op, root));
      continue;
    }
    team.begin();
    // The root, too, needs a slot if its vector belongs between others'.
    const bool root_first = op.commutative || root == n - 1;
    if (team.rank() != root || !root_first) {
      const Own own(team, bytes, root);
      if (own.cell == nullptr) return Code::peer_lost;
      team.fill(own.data, at(input, offset), bytes);
      team.publish(own.cell);
      if (team.rank() != root) team.ring(root);
    }
    if (team.rank() == root) {
      std::byte* into = at(receive, offset);
      if (root_first) copy_bytes(into, at(input, offset), bytes);
      for (int r = n - 1; r >= 0; --r) {
        if (r == root && root_first) continue;
        if (!team.wait_for(r)) return Code::peer_lost;
        if (r == n - 1 && !root_first)
          copy_bytes(into, slot(team, r, bytes), bytes);
        else
          op.apply(slot(team, r, bytes), into, piece, op.argument);
      }
    }
    team.end();
  }
  return {};
}

Status shm_reduce_scatter(ShmTeam& team, const void* input, void* receive,
                          const std::size_t* counts, const Reduction& op) {
  const int n = team.size(), me = team.rank();
  const std::size_t unit = op.element_bytes;
  std::size_t longest = 0, total = 0;
  for (int r = 0; r < n; ++r) {
    longest = std::max(longest, counts[r]);
    total += counts[r];
  }
  if (is_direct(team, total * unit)) return direct_reduce_scatter(team, input, receive, counts, op);
  // In each round a piece of every member's part: a slot holds n of them.
  const std::size_t most = piece_count(std::min(kBankBytes / index(n), team.piece_bytes()), op);
  for (std::size_t first = 0; first < longest; first += most) {
    const std::size_t stride = std::min(most, longest - first) * unit, all = index(n) * stride;
    const auto piece = [&](int r) {
      return counts[r] <= first ? 0 : std::min(most, counts[r] - first);
    };
    team.begin();
    const Own own(team, all);
    if (own.cell == nullptr) return Code::peer_lost;
    std::size_t begin = 0;
    for (int r = 0; r < n; ++r) {
      team.fill(own.data + index(r) * stride, at(input, (begin + first) * unit), piece(r) * unit);
      begin += counts[r];
    }
    // A member that gets nothing goes on at once.
    const bool all_get = std::all_of(counts, counts + n, [&](std::size_t c) { return c > first; });
    all_get ? team.publish_and_ring(own.cell) : team.publish_and_ring_each(own.cell);
    if (piece(me) != 0) {
      if (!(all_get ? team.wait_for_all() : team.wait_for_each())) return Code::peer_lost;
      reduce_slots(team, at(receive, first * unit), 0, n - 1, all, index(me) * stride, piece(me),
                   op);
    }
    team.end();
  }
  return {};
}

Status shm_scan(ShmTeam& team, const void* input, void* receive, std::size_t count,
                const Reduction& op, bool exclusive) {
  const std::size_t most = piece_count(team.piece_bytes(), op);
  const int last = exclusive ? team.rank() - 1 : team.rank();
  for (std::size_t first = 0; first < count; first += most) {
    const std::size_t piece = std::min(most, count - first);
    const std::size_t offset = first * op.element_bytes, bytes = piece * op.element_bytes;
    team.begin();
    const Own own(team, bytes);
    if (own.cell == nullptr) return Code::peer_lost;
    team.fill(own.data, at(input, offset), bytes);
    team.publish_and_ring(own.cell);
    if (!team.wait_for_all()) return Code::peer_lost;
    if (last >= 0) reduce_slots(team, at(receive, offset), 0, last, bytes, 0, piece, op);
    team.end();
  }
  return {};
}

}  // namespace weft::coll
