#pragma once
// The algorithms of weft/graph/algorithms.hpp as vertex programs, which Mode::paper stands for.
#include "weft/graph/algorithms.hpp"

namespace weft::graph {

// The largest depth of all ranks in a state of bfs that is final: of a vertex with a parent. It is
// less than the state's step if others are tentative (bfs.cpp). Collective.
std::uint32_t last_final_depth(const Graph& graph, const Bfs& state);

// vertex_programs.cpp. wcc needs an undirected graph.
void paper_bfs(const Graph& graph, VertexId source, const RunOptions& options, Bfs& result);
void paper_sssp(const Graph& graph, VertexId source, const RunOptions& options, Sssp& result);
void paper_pagerank(const Graph& graph, const PageRankOptions& rules, const RunOptions& options,
                    PageRank& result);
void paper_wcc(const Graph& graph, const RunOptions& options, Wcc& result);

}  // namespace weft::graph
