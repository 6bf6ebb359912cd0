#pragma once
// A streamed file's edges for all ranks: rank 0 reads it and hands blocks on in turn.
#include "file_source.hpp"
#include "weft/job.hpp"

namespace weft::graph {

// Collective. Adds this rank's share to `edges`; the same result everywhere.
Status read_shared(transport::Job& job, FileSource& source, bool in_order, EdgeStore& edges,
                   const FileSource::Progress& progress);

}  // namespace weft::graph
