#pragma once
// Call: one call of MPI that the program makes, as reports name it.
#include <cstdint>

namespace weft::check {

struct Call {
  const char* name = "MPI";      // "MPI_Recv"
  const void* caller = nullptr;  // where the program goes on after it
  std::uint8_t number = 0;       // names.hpp
};

// The call that this thread is in.
inline thread_local Call current_call;

}  // namespace weft::check
