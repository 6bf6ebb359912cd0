#pragma once
// Variables: whether a buffer fits what the program has there. The size of a block from malloc is
// known; of variables of the stack and of files, size and type, if the program was compiled with
// -g.
//
// Threads: any.
#include "tools/weft-check/state/buffers.hpp"

namespace weft::check {

// what: "its send buffer". Reports accesses beyond the variable or block, and types that differ.
void check_variable(const Memory& memory, const char* what);

// The address is of the stack, of a function that has returned.
bool is_of_ended_function(std::uintptr_t address);

}  // namespace weft::check
