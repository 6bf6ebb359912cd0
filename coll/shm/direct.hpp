#pragma once
// A round in which members tell each other the address of their buffers, from which the kernel
// copies (process_vm_readv): direct.cpp, direct_reduce.cpp.
#include <cstdint>
#include <cstring>

#include "coll/shm/team.hpp"

namespace weft::coll {

// Publishes an address in this member's cell of the round. False: a member is lost.
inline bool expose(ShmTeam& team, const void* data) {
  Cell* own = team.open_cell();
  if (own == nullptr) return false;
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data));
  std::memcpy(own->data, &address, sizeof address);
  team.publish(own);
  return true;
}

// What a member that has published the round exposes.
inline std::uint64_t exposed(ShmTeam& team, int member) noexcept {
  std::uint64_t address;
  std::memcpy(&address, team.cell(member).data, sizeof address);
  return address;
}

}  // namespace weft::coll
