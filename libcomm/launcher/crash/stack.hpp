#pragma once
// The stack of a thread that has crashed and waits, read from outside.
#include <sys/types.h>

#include <string>
#include <vector>

#include "job/crash.hpp"

namespace weft::weftrun {

struct Stack {
  std::string call;                 // the outermost call of MPI; empty: none
  std::string missing;              // why there is no more of it; empty: all is there
  std::vector<std::string> places;  // from the inside out
};

// Takes time, and may crash by what it reads: for a process of its own.
Stack read_stack(pid_t process, const crash::Notice& notice);

// As text from process to process.
std::string encode(const Stack& stack);
bool decode(const std::string& text, Stack& stack);

}  // namespace weft::weftrun
