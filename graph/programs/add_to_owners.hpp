#pragma once
// add_to_owners: sums that ranks have for vertices of others, outside of a step along edges.
#include "weft/graph/process.hpp"

namespace weft::graph {

// Adds this rank's values of the other ranks' vertices in `changed` to their owners', and zeroes
// them here. `changed` gets the rank's own vertices to which others have added. Collective.
template <class T>
void add_to_owners(const Graph& graph, VertexArray<T>& values, VertexSet& changed) {
  if (graph.job().size() == 1) return;
  const VertexSet none(graph);
  processEdges(
      graph, values, none, changed, [](VertexId, const T&, const Neighbors&, auto&) {},
      [](T& mine, const T& more) {
        atomic_add(mine, more);
        return true;
      },
      {.mirrors = Mirrors::clear});
}

// The same of all vertices that are not 0 here.
template <class T>
void add_all_to_owners(const Graph& graph, VertexArray<T>& values) {
  if (graph.job().size() == 1) return;
  VertexSet changed(graph);
  for (VertexId v = 0; v < graph.num_vertices(); ++v)
    if (!graph.owns(v) && values[v] != T{}) changed.insert_alone(v);
  add_to_owners(graph, values, changed);
}

}  // namespace weft::graph
