#pragma once
// The cause of a signal in words. No system calls.
//
// Tests: tests/job/crash_test.cpp.
#include <string>

#include "job/crash.hpp"

namespace weft::weftrun {

// "write to address 0x0, which is not mapped"; empty: the signal's name says it all.
std::string cause_of(const crash::Notice& notice);
// True if the thread has touched what lies just beyond its stack.
bool is_stack_full(const crash::Notice& notice);

}  // namespace weft::weftrun
