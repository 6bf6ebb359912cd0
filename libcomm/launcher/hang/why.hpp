#pragma once
// Why a job stands still: the report, from what its ranks wait for (base/blocked.hpp). No system
// calls.
//
// Tests: tests/job/why_test.cpp.
#include <optional>
#include <string>
#include <vector>

#include "base/blocked.hpp"

namespace weft::weftrun {

// One rank, as it was seen.
struct RankView {
  enum class State {
    unknown,  // nothing could be read: it has not joined, or does not answer
    running,  // it does not wait in a call of MPI
    blocked,  // `found` says in what
    left,     // it has called MPI_Finalize
    ended,
  };
  int rank = 0;
  State state = State::unknown;
  blocked::Found found;
  bool is_stopped = false;  // by a signal
  std::string place;        // "solve (solve.c:41)"; empty: unknown
};

// A line for each group of ranks that do the same, and then the reason, if one is found.
std::vector<std::string> explain(const std::vector<RankView>& ranks);
// The reason alone, in a sentence.
std::optional<std::string> reason_of(const std::vector<RankView>& ranks);
// True if nothing but a rank of this job can let these ranks go on, and none will: all that are
// left wait, and no data are on their way.
bool stands_still(const std::vector<RankView>& ranks);

}  // namespace weft::weftrun
