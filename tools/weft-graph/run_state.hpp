#pragma once
// The state of each algorithm: the columns of its checkpoint, and what values they can have.
#include <cmath>
#include <limits>
#include <vector>

#include "graph/common/gather.hpp"
#include "weft/graph/algorithms.hpp"

namespace weft::graph {

inline std::vector<Parts> columns_of(const Graph& graph, const Bfs& result) {
  return {parts_of(graph, result.depth), parts_of(graph, result.parent)};
}
inline bool is_possible(const Graph& graph, const Bfs& result, VertexId v, std::uint32_t step) {
  const std::uint32_t depth = result.depth[v];
  // One without a parent is not reached, or its depth is not final.
  return result.parent[v] == kNoVertex ? depth == kUnreached || depth < graph.num_vertices()
                                       : result.parent[v] < graph.num_vertices() && depth <= step;
}

inline std::vector<Parts> columns_of(const Graph& graph, const Sssp& result) {
  return {parts_of(graph, result.distance)};
}
inline bool is_possible(const Graph& graph, const Sssp& result, VertexId v, std::uint32_t) {
  if (result.distance[v] == kFar) return true;
  if (graph.has_real_weights()) {
    const double distance = real_distance(result.distance[v]);
    return distance >= 0 && std::isfinite(distance);
  }
  // No path has more edges than there are vertices.
  return result.distance[v] / std::numeric_limits<Weight>::max() <= graph.num_vertices();
}

inline std::vector<Parts> columns_of(const Graph& graph, const Wcc& result) {
  return {parts_of(graph, result.component)};
}
inline bool is_possible(const Graph&, const Wcc& result, VertexId v, std::uint32_t) {
  return result.component[v] <= v;
}

inline std::vector<Parts> columns_of(const Graph& graph, const Cdlp& result) {
  return {parts_of(graph, result.label)};
}
inline bool is_possible(const Graph& graph, const Cdlp& result, VertexId v, std::uint32_t) {
  return result.label[v] < graph.num_vertices();
}

inline std::vector<Parts> columns_of(const Graph& graph, const KCore& result) {
  return {parts_of(graph, result.core)};
}
inline bool is_possible(const Graph& graph, const KCore& result, VertexId v, std::uint32_t) {
  return result.core[v] == kNoCore || result.core[v] < graph.num_vertices();
}

inline std::vector<Parts> columns_of(const Graph& graph, const PageRank& result) {
  return {parts_of(graph, result.rank)};
}
inline bool is_possible(const Graph&, const PageRank& result, VertexId v, std::uint32_t) {
  return result.rank[v] >= 0 && std::isfinite(result.rank[v]);
}

inline std::vector<Parts> columns_of(const Graph& graph, const Lcc& result) {
  return {parts_of(graph, result.coefficient), parts_of(graph, result.searched)};
}
inline bool is_possible(const Graph&, const Lcc& result, VertexId v, std::uint32_t) {
  constexpr double kMost = std::uint64_t{1} << 53;  // of what a double counts
  return result.coefficient[v] >= 0 && result.coefficient[v] <= kMost && result.searched[v] <= 1;
}

inline std::vector<Parts> columns_of(const Graph& graph, const Triangles& result) {
  return {parts_of(graph, result.of_vertex), parts_of(graph, result.searched)};
}
inline bool is_possible(const Graph&, const Triangles& result, VertexId v, std::uint32_t) {
  return result.searched[v] <= 1;
}

inline std::vector<Parts> columns_of(const Graph& graph, const Betweenness& result) {
  return {parts_of(graph, result.score)};
}
inline bool is_possible(const Graph&, const Betweenness& result, VertexId v, std::uint32_t) {
  return result.score[v] >= 0 && std::isfinite(result.score[v]);
}

}  // namespace weft::graph
