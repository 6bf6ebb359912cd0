#pragma once
// MembersWatch: for the waits of a root for which the other members wait; ends them if a member is
// lost.
#include "mpi/comm/comm.hpp"
#include "mpi/dynamic/port.hpp"

namespace weft::mpi {

class MembersWatch : public Port::Watch {
 public:
  explicit MembersWatch(const Comm& comm) : comm_(comm) {}
  // Returns peer_lost if a member is lost.
  Status check() override;

 private:
  const Comm& comm_;
  std::uint32_t seen_ = 0;
};

}  // namespace weft::mpi
