// Local clustering coefficients, by the triangles that a vertex is in: an edge between two of its
// neighbors is one.
#include "graph/programs/add_to_owners.hpp"
#include "graph/programs/require.hpp"
#include "triangles.hpp"

namespace weft::graph {

void lcc(const Graph& graph, const RunOptions& options, Lcc& result) {
  require_in_edges(graph, "lcc");
  if (options.progress) options.progress("lcc", 1);
  const ForwardRows rows(graph, !graph.undirected());
  VertexArray<std::uint64_t> edges(graph, 0);  // between a vertex's neighbors
  rows.for_triangles(options.edges_at_once,
                     [&](int, VertexId v, std::uint64_t amount) { atomic_add(edges[v], amount); });
  add_all_to_owners(graph, edges);
  const std::uint64_t directions = graph.undirected() ? 2 : 1;
  processVertices(graph, [&](VertexId v) {
    const std::uint64_t degree = rows.degree(v);
    result.coefficient[v] = degree < 2 ? 0
                                       : static_cast<double>(edges[v] * directions) /
                                             static_cast<double>(degree * (degree - 1));
    return 0;
  });
}

}  // namespace weft::graph
