#pragma once
// A collective step of the ranks ends in the same way on all of them.
#include <string>

#include "weft/job.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// Collective. The first failure by rank, on all ranks; ok if none failed.
Status agree(transport::Job& job, const Status& mine);

// Throws weft::Error, on all ranks alike, if one of them failed. Collective.
inline void throw_together(transport::Job& job, const Status& mine) {
  const Status agreed = agree(job, mine);
  if (!agreed.ok()) throw Error(agreed);
}

// For what is collective itself, and so the same everywhere.
inline void throw_if(const Status& status) {
  if (!status.ok()) throw Error(status);
}

}  // namespace weft::graph
