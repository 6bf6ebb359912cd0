#pragma once
// MembersWatch: for waits of a root, with whom the other members wait.
#include "mpi/comm/comm.hpp"
#include "mpi/dynamic/port.hpp"

namespace weft::mpi {

class MembersWatch : public Port::Watch {
 public:
  explicit MembersWatch(const Comm& comm) : comm_(comm) {}
  // peer_lost: a member is lost.
  Status check() override;

 private:
  const Comm& comm_;
  std::uint32_t seen_ = 0;
};

}  // namespace weft::mpi
