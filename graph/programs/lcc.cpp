// Local clustering coefficients, by the triangles that a vertex is in: an edge between two of its
// neighbors is one.
#include "graph/programs/add_to_owners.hpp"
#include "graph/programs/require.hpp"
#include "triangles.hpp"

namespace weft::graph {

void lcc(const Graph& graph, const RunOptions& options, Lcc& result) {
  require_in_edges(graph, "lcc");
  const ForwardRows rows(graph, !graph.undirected());
  VertexArray<std::uint64_t> edges(graph, 0);  // between a vertex's neighbors
  const auto for_owned = [&](auto&& visit) {
    for (VertexId v = graph.first(); v < graph.last(); ++v) visit(v);
  };
  if (options.resume_step > 0)
    for_owned([&](VertexId v) { edges[v] = static_cast<std::uint64_t>(result.coefficient[v]); });
  result.num_steps = rows.for_triangles(
      "lcc", options, result.searched,
      [&](int, VertexId v, std::uint64_t amount) { atomic_add(edges[v], amount); },
      [&] {
        add_all_to_owners(graph, edges);
        for_owned([&](VertexId v) { result.coefficient[v] = static_cast<double>(edges[v]); });
      });
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
