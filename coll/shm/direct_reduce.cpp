// Long reductions of two members that both are running: each reads the other's vector piece by
// piece, by the kernel (direct.cpp), and reduces what it has read while that is in its cache.
#include "coll/shm/collectives.hpp"
#include "coll/shm/direct.hpp"

namespace weft::coll {
namespace {

constexpr std::size_t kReducePieceBytes = 128 * 1024;  // fits a second-level cache several times
static_assert(kReducePieceBytes <= kBankBytes);

struct Part {
  std::size_t first, count;  // elements
};

// into = the first member's elements op the second's, of which `own` and `theirs` are where they
// are here and in the other member. `into` may be `own`.
bool reduce_piece(ShmTeam& team, const void* own, void* into, std::uint64_t theirs,
                  std::size_t count, const Reduction& op, std::byte* scratch) {
  const int peer = 1 - team.rank();
  const std::size_t bytes = count * op.element_bytes;
  if (into != own && (team.rank() == 0 || op.commutative)) {
    if (!team.read(peer, into, theirs, bytes)) return false;
    op.apply(own, into, count, op.argument);
    return true;
  }
  if (!team.read(peer, scratch, theirs, bytes)) return false;
  if (team.rank() == 1 || op.commutative) {
    if (into != own) copy_bytes(into, own, bytes);
    op.apply(scratch, into, count, op.argument);
  } else {
    op.apply(own, scratch, count, op.argument);
    copy_bytes(into, scratch, bytes);
  }
  return true;
}

// The same for a part of both vectors; `into` is that of the first of its elements.
Code reduce_part(ShmTeam& team, const void* input, std::byte* into, std::uint64_t theirs, Part part,
                 const Reduction& op, std::byte* scratch) {
  const std::size_t most = std::max<std::size_t>(1, kReducePieceBytes / op.element_bytes);
  for (std::size_t done = 0; done < part.count; done += most) {
    const std::size_t offset = (part.first + done) * op.element_bytes;
    if (!reduce_piece(team, at(input, offset), into + done * op.element_bytes, theirs + offset,
                      std::min(most, part.count - done), op, scratch))
      return copy_failure();
  }
  return Code::ok;
}

// Begins a round in which the two see each other's vector at `theirs`. Returns this member's bank,
// which nobody reads, for what is read; null: the other is lost.
std::byte* begin(ShmTeam& team, const void* input, std::uint64_t& theirs) {
  team.begin();
  std::byte* scratch = team.open_bank();
  return scratch != nullptr && meet(team, input, theirs) ? scratch : nullptr;
}

}  // namespace

Status direct_reduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                     const Reduction& op, int root) {
  std::uint64_t theirs = 0;
  std::byte* scratch = begin(team, input, theirs);
  if (scratch == nullptr) return Code::peer_lost;
  Code code = Code::ok;
  if (team.rank() == root)
    code =
        reduce_part(team, input, static_cast<std::byte*>(receive), theirs, {0, count}, op, scratch);
  return part_company(team) ? code : Code::peer_lost;
}

Status direct_allreduce(ShmTeam& team, const void* input, void* receive, std::size_t count,
                        const Reduction& op) {
  const Part parts[] = {{0, count / 2}, {count / 2, count - count / 2}};
  const Part &mine = parts[team.rank()], &others = parts[1 - team.rank()];
  const auto offset = [&](const Part& part) { return part.first * op.element_bytes; };
  std::uint64_t theirs = 0;
  std::byte* scratch = begin(team, input, theirs);
  if (scratch == nullptr) return Code::peer_lost;
  Code code = reduce_part(team, input, at(receive, offset(mine)), theirs, mine, op, scratch);
  team.end();
  team.begin();
  // Null: this half is not there.
  if (!meet(team, code == Code::ok ? receive : nullptr, theirs)) return Code::peer_lost;
  if (theirs == 0) {
    if (code == Code::ok) code = Code::not_permitted;
  } else if (!team.read(1 - team.rank(), at(receive, offset(others)), theirs + offset(others),
                        others.count * op.element_bytes)) {
    code = copy_failure();
  }
  return part_company(team) ? code : Code::peer_lost;
}

Status direct_reduce_scatter(ShmTeam& team, const void* input, void* receive,
                             const std::size_t* counts, const Reduction& op) {
  const Part mine{team.rank() == 0 ? 0 : counts[0], counts[team.rank()]};
  std::uint64_t theirs = 0;
  std::byte* scratch = begin(team, input, theirs);
  if (scratch == nullptr) return Code::peer_lost;
  const Code code =
      reduce_part(team, input, static_cast<std::byte*>(receive), theirs, mine, op, scratch);
  return part_company(team) ? code : Code::peer_lost;
}

}  // namespace weft::coll
