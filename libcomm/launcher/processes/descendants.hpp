#pragma once
// The processes that descend from this one, whatever process groups and sessions they have put
// themselves into. For a process that is a child subreaper (PR_SET_CHILD_SUBREAPER): the children
// of one that ends become this process's, so none ever stops to descend from it. One thread.
#include <sys/types.h>

namespace weft::weftrun {

// The number of processes that a signal went to, and of those that may not be signalled: of another
// user, by sudo.
struct Signalled {
  int num_reached = 0;
  int num_refused = 0;
};

// False where there is no /proc, or that of another process-id namespace: then none is found.
bool can_see_descendants();

// Signals each that runs now, except those of the process group `but` (0: none is excepted).
Signalled signal_descendants(int number, pid_t but = 0);

// Kills them, and those they still start, and waits for their ends. Processes that may not be
// signalled are left.
void end_descendants();

}  // namespace weft::weftrun
