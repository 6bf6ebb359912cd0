#pragma once
// Serial versions of the algorithms, which verify results. They share with the others only the
// rows that loadGraph made, in a job of one.
#include <cstdint>
#include <vector>

#include "weft/graph/algorithms.hpp"

namespace weft::graph::serial {

std::vector<std::uint32_t> bfs_depths(const Graph& graph, VertexId source);
// As Sssp::distance has them.
std::vector<std::uint64_t> sssp_distances(const Graph& graph, VertexId source);
// Components are named by their smallest vertex; edges count in both directions.
std::vector<VertexId> components(const Graph& graph);
std::vector<double> pagerank(const Graph& graph, const PageRankOptions& rules);
// Label propagation; the graph needs no edges in.
std::vector<VertexId> labels(const Graph& graph, std::uint32_t iterations);
// In the simple graph, undirected but for clustering and betweenness; the graph needs no edges in.
std::vector<double> clustering(const Graph& graph);
std::vector<std::uint64_t> triangles(const Graph& graph);
std::vector<std::uint32_t> core_numbers(const Graph& graph);
std::vector<double> betweenness(const Graph& graph, const std::vector<VertexId>& sources,
                                const BetweennessOptions& rules);

}  // namespace weft::graph::serial
