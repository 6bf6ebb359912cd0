#pragma once
// What an algorithm requires of its graph.
#include <string>

#include "weft/graph/graph.hpp"

namespace weft::graph {

// Throws bad_argument, on all ranks alike, if the graph was loaded without edges in.
inline void require_in_edges(const Graph& graph, const char* algorithm) {
  if (!graph.has_in_edges())
    throw Error({Code::bad_argument,
                 std::string(algorithm) +
                     ": needs edges in: load the graph with in_edges, or as undirected"});
}

}  // namespace weft::graph
