// Long blocks inside a host: members publish the addresses of their buffers, and the kernel copies
// once (process_vm_readv, process_vm_writev) instead of two copies through a bank. A buffer may be
// used again when all its readers are done.
//
// A copy that fails does not end the protocol, or the others would wait for ever; it is reported at
// the end.
#include "coll/shm/direct.hpp"

#include "coll/shm/collectives.hpp"

namespace weft::coll {
namespace {

bool wait_for_readers(ShmTeam& team, int owner) {
  for (int r = 0; r < team.size(); ++r)
    if (r != owner && !team.wait_until_done(r)) return false;
  return true;
}

// One block between two members alone: each copies one half, at the same time.
Status copy_between(ShmTeam& team, bool sends, const void* send, void* receive, std::size_t bytes) {
  const int peer = 1 - team.rank();
  team.begin();
  if (!sends) team.open_to_writer();
  // The user gets the memory back only once nobody writes it any more.
  const auto lost = [&]() -> Status {
    if (!sends) team.close_to_writer(peer);
    return Code::peer_lost;
  };
  std::uint64_t theirs = 0;
  if (!meet(team, sends ? send : receive, theirs)) return lost();
  const std::size_t half = bytes / 2 / kLine * kLine;
  const bool copied = sends ? team.write(peer, at(send, half), theirs + half, bytes - half)
                            : team.read(peer, receive, theirs, half);
  const Code code = copied ? Code::ok : copy_failure();
  return part_company(team) ? Status(code) : lost();
}

// Every member reads `length` bytes at `offset` from the root's buffer.
Status read_from_root(ShmTeam& team, const void* exposed_here, void* into, std::size_t offset,
                      std::size_t length, int root) {
  team.begin();
  if (team.rank() == root) {
    if (!expose(team, exposed_here)) return Code::peer_lost;
    team.ring_all();
    team.end();
    return wait_for_readers(team, root) ? Code::ok : Code::peer_lost;
  }
  if (!team.wait_for(root)) return Code::peer_lost;
  const Code code =
      team.read(root, into, exposed(team, root) + offset, length) ? Code::ok : copy_failure();
  team.end();
  team.ring(root);
  return code;
}

// Every member reads one block from every other, at `offset` in what each exposes, and copies its
// own from `own_block` unless that is null.
Status read_from_all(ShmTeam& team, const void* exposed_here, const void* own_block, void* receive,
                     std::size_t bytes, std::size_t offset) {
  const int n = team.size(), me = team.rank();
  team.begin();
  Cell* own = write_address(team, exposed_here);
  if (own == nullptr) return Code::peer_lost;
  team.publish_and_ring(own);
  if (!team.wait_for_all()) return Code::peer_lost;
  Code code = Code::ok;
  for (int step = 1; step < n; ++step) {
    const int r = (me + step) % n;
    if (!team.read(r, at(receive, index(r) * bytes), exposed(team, r) + offset, bytes))
      code = copy_failure();
  }
  team.end();
  // Last, so that no member waits for it.
  if (own_block != nullptr) copy_bytes(at(receive, index(me) * bytes), own_block, bytes);
  if (team.is_crowded()) {
    const Status met = shm_barrier(team);
    return met ? Status(code) : met;
  }
  team.ring_all();
  return wait_for_readers(team, me) ? code : Code::peer_lost;
}

}  // namespace

Status direct_bcast(ShmTeam& team, void* data, std::size_t bytes, int root) {
  if (team.size() == 2) return copy_between(team, team.rank() == root, data, data, bytes);
  return read_from_root(team, data, data, 0, bytes, root);
}

Status direct_scatter(ShmTeam& team, const void* send, void* receive, std::size_t bytes, int root) {
  return read_from_root(team, send, receive, index(team.rank()) * bytes, bytes, root);
}

Status direct_gather(ShmTeam& team, const void* send, void* receive, std::size_t bytes, int root) {
  const bool is_root = team.rank() == root;
  return copy_between(team, !is_root, send,
                      is_root ? at(receive, index(1 - root) * bytes) : nullptr, bytes);
}

Status direct_allgather(ShmTeam& team, const void* send, void* receive, std::size_t bytes) {
  const void* own = send != nullptr ? send : at(receive, index(team.rank()) * bytes);
  return read_from_all(team, own, send, receive, bytes, 0);
}

Status direct_alltoall(ShmTeam& team, const void* send, void* receive, std::size_t bytes) {
  const std::size_t offset = index(team.rank()) * bytes;
  const void* own = at(send, offset);
  return read_from_all(team, send, own, receive, bytes, offset);
}

}  // namespace weft::coll
