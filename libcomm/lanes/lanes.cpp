#include "lanes/lanes.hpp"

#include <sched.h>

#include "lanes/linked/remote_lanes.hpp"

namespace weft {

Code Lanes::finish(int peer, const RemoteAccess& access) noexcept {
  Completion completion;
  begin(peer, access, completion);
  for (unsigned i = 0; !completion.is_done(); ++i) {
    remote_->poll();
    if (i >= 64) sched_yield();
  }
  return completion.code();
}

}  // namespace weft
