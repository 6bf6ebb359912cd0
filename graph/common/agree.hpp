#pragma once
// Agreement of all ranks on the result of a collective step.
#include <span>
#include <string>

#include "weft/job.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// Collective. The first failure by rank, on all ranks; ok if none failed.
Status agree(transport::Job& job, const Status& mine);

// The first failure by thread; ok if none failed.
inline Status first_failure(std::span<const Status> of_threads) {
  for (const Status& status : of_threads)
    if (!status.ok()) return status;
  return Code::ok;
}

// Throws weft::Error, on all ranks alike, if one of them failed. Collective.
inline void throw_together(transport::Job& job, const Status& mine) {
  const Status agreed = agree(job, mine);
  if (!agreed.ok()) throw Error(agreed);
}

// Throws the status of a collective call, which is the same on all ranks.
inline void throw_if(const Status& status) {
  if (!status.ok()) throw Error(status);
}

}  // namespace weft::graph
