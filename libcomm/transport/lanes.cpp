#include "transport/lanes.hpp"

#include <sched.h>

#include "transport/remote/remote_lanes.hpp"

namespace weft {

Code Lanes::wait(const Completion& completion) noexcept {
  for (unsigned i = 0; !completion.is_done(); ++i) {
    remote_->poll();
    if (i >= 64) sched_yield();
  }
  return completion.code();
}

}  // namespace weft
