#pragma once
// The four algorithms once more, by one thread, in the plainest way: what results are checked
// against. They share nothing with the others but the rows that loadGraph made, in a job of one.
#include <cstdint>
#include <vector>

#include "weft/graph/graph.hpp"

namespace weft::graph::serial {

std::vector<std::uint32_t> bfs_depths(const Graph& graph, VertexId source);
std::vector<std::uint64_t> sssp_distances(const Graph& graph, VertexId source);
// Names by the smallest vertex; edges lead both ways.
std::vector<VertexId> components(const Graph& graph);
std::vector<double> pagerank(const Graph& graph, std::uint32_t iterations, double tolerance);

}  // namespace weft::graph::serial
