#pragma once
// Report: a line on standard error about a mistake of the program, once for each place and kind.
// The process then ends with kExitStatus, if it would have ended with 0.
//
// Threads: any.
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/weft-check/call.hpp"

namespace weft::check {

inline constexpr int kExitStatus = 66;
inline constexpr int kAbortStatus = 67;

// Reads WEFT_CHECK, and prepares the exit status. Called when the library is loaded.
void begin_reports();
// The rank of MPI_COMM_WORLD that reports name.
void set_rank(int rank);
int this_rank();

// "MPI_Recv at main (file.c:12)".
std::string text_of(const Call& call);

// kind: one of a few words; a report of the same kind and place as an earlier one is dropped.
void report(const Call& call, std::string_view kind, const std::string& text);
inline void report(std::string_view kind, const std::string& text) {
  report(current_call, kind, text);
}

}  // namespace weft::check
