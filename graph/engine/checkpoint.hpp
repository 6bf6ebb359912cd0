#pragma once
// Checkpoints: the state of a run after a step, in a file from which a later one goes on, with any
// number of processes and threads and in any mode.
//
// The file is a header of 64 bytes, two texts (the run in words, and what its ended searches have
// found), and blocks of 65536 vertices (the last has fewer): the values of each column, and the
// CRC-32 of the block. It is replaced as a whole.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/common/gather.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// Identifies the run of a state; a checkpoint of another run is refused.
struct CheckpointKey {
  std::string run;  // all that decides on the result beside the graph, as "bfs --source 0"
  std::uint64_t num_vertices = 0, num_edges = 0;
  std::uint64_t edges_sum = 0;  // of a hash of every edge with its weight, without its order
};
// Collective.
CheckpointKey checkpoint_key(const Graph& graph, std::string run);

// How far a run has come, which may be several searches, one after the other.
struct RunProgress {
  std::uint32_t step = 0;       // of the present search, whose state the columns are; 0: it begins
  std::uint32_t num_ended = 0;  // searches before it
  std::string found;            // by those, in the words of who saves
};

// Collective, the same result everywhere. The columns' values are not changed until it returns.
// After an error the file is what it was. Rank 0's `found` is saved.
Status save_checkpoint(const Graph& graph, const CheckpointKey& key, const RunProgress& progress,
                       const std::string& path, std::span<const Parts> columns);
// Collective, the same result everywhere: not_found: rank 0 sees no such file; corrupt: not such a
// file, or damaged; bad_argument: of another run, or not to be read by all.
Status load_checkpoint(const Graph& graph, const CheckpointKey& key, const std::string& path,
                       std::span<const Parts> columns, RunProgress& progress);

// What a file says of itself.
struct CheckpointHeader {
  char magic[8];
  std::uint32_t vertex_bytes, record_bytes, step, num_ended;
  std::uint64_t num_vertices, num_edges, edges_sum;
  std::uint32_t run_bytes, found_bytes;
  std::uint32_t texts_crc;
  std::uint32_t crc;  // of the fields before it

  std::uint64_t blocks_at() const {
    return sizeof *this + std::uint64_t{run_bytes} + std::uint64_t{found_bytes};
  }
};
static_assert(sizeof(CheckpointHeader) == 64);
// corrupt if it is none, or not that of a file of so many bytes.
Status parse_checkpoint_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                               CheckpointHeader& header);

}  // namespace weft::graph
