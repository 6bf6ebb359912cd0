#pragma once
// A cache of rows that memory does not hold: written in parts, each of as many rows as all ranks
// have memory for, with a pass over the graph's file for each.
#include <string>
#include <vector>

#include "edge_feed.hpp"
#include "graph_cache.hpp"
#include "load_progress.hpp"
#include "weft/graph/graph.hpp"
#include "weft/graph/team.hpp"

namespace weft::graph {

// The rows of the next part: rank r makes those of vertices cut[r] to cut[r + 1] - 1. Each has as
// many rows as have part_edges edges, or one that has more.
std::vector<VertexId> next_part(std::span<const std::uint32_t> degrees, VertexId first,
                                int num_ranks, std::uint64_t part_edges);

// How much room the disk has for the file; no_memory, with the bytes, if it does not suffice.
Status check_disk(const std::string& path, std::uint64_t bytes);

// Writes the cache of a graph. Collective; throws weft::Error on all ranks alike,
// and then the file is what it was. `part_bytes` is each rank's memory for a part's rows.
void write_cache_in_parts(transport::Job& job, Team& team, EdgeFeed& edges,
                          const CacheHeader& header, const LoadOptions& options,
                          std::uint64_t part_bytes, const std::string& path);

}  // namespace weft::graph
