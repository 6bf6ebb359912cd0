#pragma once
// What is said of ranks that have crashed. No system calls.
//
// Tests: tests/job/crash_test.cpp.
#include <string>
#include <vector>

namespace weft::weftrun {

struct Crash {
  int rank = 0;
  int process = 0;
  std::string host;
  int signal = 0;
  std::string cause;               // "write to address 0x0, which is not mapped"; may be empty
  std::string call;                // of MPI, that it was in; empty: none, or not known
  std::vector<std::string> stack;  // the places, from the inside out
  std::string no_stack;            // why there is none, or not all of it; may be empty
  std::string core;                // where its core file goes

  bool is_like(const Crash& other) const {
    return signal == other.signal && call == other.call && !stack.empty() && stack == other.stack;
  }
};

// What is said of the core file of a rank that a signal has ended. file: where it goes; empty: not
// known.
std::string core_line(const std::string& file, bool is_written);

// The reports of one job.
class CrashReports {
 public:
  // The lines about ranks that have crashed at once: those in the same place together. After some
  // stacks the others get a line each.
  std::vector<std::string> lines_of(std::vector<Crash> crashes);

 private:
  std::vector<Crash> shown_;  // whose stacks the user has seen
};

}  // namespace weft::weftrun
