// pagerank: PageRank by push, 20 iterations.
//
//   weftrun -n 2 graph_pagerank GRAPH
//
// Every vertex begins with 1; in an iteration it gives its value, divided by its edges out, along
// each of them, and becomes 0.15 + 0.85 times the sum of the shares it receives. A step reads the
// shares and adds up the sums, so it has two arrays.
#include <cstdio>

#include "in_job.hpp"
#include "weft/graph.hpp"

using namespace weft::graph;  // NOLINT(google-build-using-namespace): an example

namespace {

void run(weft::transport::Job& job, int argc, char** argv) {
  check_usage(argc == 2, "graph_pagerank GRAPH");
  const Graph graph = loadGraph(job, argv[1]);

  VertexArray<double> rank(graph, 1), given(graph, 0), sum(graph, 0);
  VertexSet all(graph), touched(graph);
  processVertices(graph, [&](VertexId v) {
    all.insert(v);
    return 0;
  });
  for (int iteration = 0; iteration < 20; ++iteration) {
    processVertices(graph, [&](VertexId v) {
      const auto degree = static_cast<double>(graph.out_degree(v));
      given[v] = degree > 0 ? rank[v] / degree : 0;
      return 0;
    });
    touched.clear();
    processEdges(
        graph, given, sum, all, touched,
        [](VertexId, double mine, const Neighbors& edges, auto& push) {
          for (const auto& [to, weight] : edges) push(to, mine);
        },
        [](double& mine, double more) {
          atomic_add(mine, more);
          return true;
        },
        {.mirrors = Mirrors::clear});
    processVertices(graph, [&](VertexId v) {
      rank[v] = 0.15 + 0.85 * sum[v];
      sum[v] = 0;
      return 0;
    });
  }

  const double total = processVertices(graph, [&](VertexId v) { return rank[v]; });
  if (job.rank() == 0) std::printf("sum of ranks %.1f\n", total);
}

}  // namespace

int main(int argc, char** argv) {
  return in_job("graph_pagerank", [&](weft::transport::Job& job) { run(job, argc, argv); });
}
