#pragma once
// The mapping of a team's shared segment, unmapped at destruction.
#include <cstddef>

namespace weft::coll {

struct ShmSegment {
  ShmSegment() = default;
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  void* memory = nullptr;
  std::size_t bytes = 0;
};

}  // namespace weft::coll
