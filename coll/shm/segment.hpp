#pragma once
// The mapping of a team's shared segment, unmapped at destruction, and memory for the objects that
// use it: once the members have agreed on the segment none may fail for lack of memory.
#include <cstddef>
#include <optional>

#include "coll/shm/team.hpp"

namespace weft::coll {

struct ShmSegment {
  ShmSegment() = default;
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  void* memory = nullptr;
  std::size_t bytes = 0;
  ShmTree tree;  // of the team
  std::optional<ShmTeam> team;
};

}  // namespace weft::coll
