#include "lanes/lanes.hpp"

#include <sched.h>

#include "lanes/linked/remote_lanes.hpp"

namespace weft {

Code Lanes::finish(int peer, Access access, const MemoryName& there, std::size_t offset, void* here,
                   std::size_t bytes, std::uint64_t operand, std::uint64_t compare,
                   std::uint64_t* previous) noexcept {
  Completion completion;
  begin(peer, access, there, offset, here, bytes, operand, compare, previous, completion);
  for (unsigned i = 0; !completion.is_done(); ++i) {
    remote_->poll();
    if (i >= 64) sched_yield();
  }
  return completion.code();
}

}  // namespace weft
