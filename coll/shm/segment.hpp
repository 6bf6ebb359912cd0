#pragma once
// The mapping of a team's shared segment, unmapped at destruction, and memory for the objects that
// use it: once the members have agreed on the segment none may fail for lack of memory.
#include <cstddef>
#include <optional>

#include "base/os/mapping.hpp"
#include "coll/shm/team.hpp"

namespace weft::coll {

struct ShmSegment {
  Mapping memory;
  ShmTree tree;  // of the team
  std::optional<ShmTeam> team;
};

}  // namespace weft::coll
