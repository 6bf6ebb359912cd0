#pragma once
// Checkpoints: the state of an algorithm after a step, in a file from which a later run resumes,
// with any number of processes and threads and in any mode.
//
// The file is a header of 64 bytes, and blocks of 65536 vertices (the last has fewer): the values
// of each column, and the CRC-32 of the block. It is replaced as a whole.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/common/gather.hpp"
#include "weft/status.hpp"

namespace weft::graph {

// Identifies the run of a state; a checkpoint of another run is refused.
struct CheckpointKey {
  std::uint32_t algorithm = 0;  // index in weft-graph's order
  std::uint64_t source = 0;     // of pagerank the number of its rules
  std::uint64_t num_vertices = 0, num_edges = 0;
  std::uint64_t edges_sum = 0;  // of a hash of every edge with its weight, without its order
};
// Collective.
CheckpointKey checkpoint_key(const Graph& graph, std::uint32_t algorithm, std::uint64_t source);

// Collective, the same result everywhere. The columns' values are not changed until it returns.
// After an error the file is what it was.
Status save_checkpoint(const Graph& graph, const CheckpointKey& key, std::uint32_t step,
                       const std::string& path, std::span<const Parts> columns);
// Collective, the same result everywhere: not_found; corrupt: not such a file, or damaged;
// bad_argument: of another run.
Status load_checkpoint(const Graph& graph, const CheckpointKey& key, const std::string& path,
                       std::span<const Parts> columns, std::uint32_t& step);

// Reads a header, in a file of so many bytes.
inline constexpr std::size_t kCheckpointHeaderBytes = 64;
Status parse_checkpoint_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                               std::size_t record_bytes, const CheckpointKey& key,
                               std::uint32_t& step);

}  // namespace weft::graph
