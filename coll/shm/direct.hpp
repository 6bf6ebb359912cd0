#pragma once
// A round in which members tell each other the address of their buffers, from which the kernel
// copies (process_vm_readv): direct.cpp, direct_reduce.cpp.
#include <cstdint>
#include <cstring>

#include "coll/shm/team.hpp"

namespace weft::coll {

// Writes an address into this member's cell of the round, to be published. Null: a member is lost.
inline Cell* write_address(ShmTeam& team, const void* data) {
  Cell* own = team.open_cell();
  if (own == nullptr) return nullptr;
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data));
  std::memcpy(own->data, &address, sizeof address);
  return own;
}

inline bool expose(ShmTeam& team, const void* data) {
  Cell* own = write_address(team, data);
  if (own != nullptr) team.publish(own);
  return own != nullptr;
}

// What a member that has published the round exposes.
inline std::uint64_t exposed(ShmTeam& team, int member) noexcept {
  std::uint64_t address;
  std::memcpy(&address, team.cell(member).data, sizeof address);
  return address;
}

// In a round of a pair: each exposes its memory to the other. False: the other is lost.
inline bool meet(ShmTeam& team, const void* data, std::uint64_t& theirs) {
  const int peer = 1 - team.rank();
  if (!expose(team, data)) return false;
  team.ring(peer);
  if (!team.wait_for(peer)) return false;
  team.note_all_arrived();
  theirs = exposed(team, peer);
  return true;
}

// Ends that round once the other is done with this one's memory.
inline bool part_company(ShmTeam& team) {
  const int peer = 1 - team.rank();
  team.end();
  team.ring(peer);
  return team.wait_until_done(peer);
}

}  // namespace weft::coll
