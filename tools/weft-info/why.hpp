#pragma once
// What the processes of a job wait for: those of this host with the job key of one of them.
#include <sys/types.h>

namespace weft {

// Prints it; returns the exit status.
int print_why(pid_t pid);

}  // namespace weft
