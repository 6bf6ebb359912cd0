#pragma once
// The mapping of a team's shared segment, unmapped at destruction, and the pipes of two members.
#include <cstddef>

#include "fabric/shm/pipe.hpp"

namespace weft::coll {

struct ShmSegment {
  ShmSegment() = default;
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  void* memory = nullptr;
  std::size_t bytes = 0;
  shm::OwnPipe own_pipe;
  shm::PeerPipe peer_pipe;
};

}  // namespace weft::coll
