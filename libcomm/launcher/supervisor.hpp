#pragma once
// The supervisor: the process between weftrun and the ranks of this machine. It starts the ranks,
// reports their ends, passes signals on, and ends everything that the ranks have started once
// weftrun asks for that, or has ended in any manner.
//
// It is a child subreaper, so that no descendant can leave it (descendants.hpp), and leads the
// process group of all ranks, so that a terminal's signals come to them by weftrun alone. Its
// parent is a process between weftrun and it, a subreaper too, that does nothing but wait for it:
// should the supervisor be killed, the kernel kills the ranks, and that parent everything else.
//
// weftrun and the supervisor talk over a socket of whole messages: an Order a message one way, a
// Report the other. A start is answered at once, by started, which carries the read ends of the
// rank's output and of its errors, or by failed.
//
// Tests: tests/job/ends_test.cpp.
#include <signal.h>
#include <sys/types.h>

#include <vector>

#include "launcher/host.hpp"

namespace weft::weftrun {

struct Order {
  enum class Kind : int { start, signal } kind;
  int value;  // the place of the rank in Assignment::ranks, or the signal's number
};

struct Report {
  // kept: the rank should be killed, but may not be signalled (it has become another user).
  enum class Kind : int { started, failed, exited, kept } kind;
  int rank;
  int value;  // pid, errno, wait status, pid
};

struct SupervisorPlan {
  const Assignment& assignment;
  const std::vector<std::vector<int>>& cpus;  // by place; empty: not bound
  sigset_t mask;                              // that ranks start with
  int input = -1;                             // the input of rank 0; -1: none
  int socket = -1;
};

// The life of the supervisor's parent, in a process of its own, with the supervisor as its child.
// Ends after it.
[[noreturn]] void run_supervisor_parent(const SupervisorPlan& plan);

}  // namespace weft::weftrun
