// sssp: shortest paths from a vertex, as algorithm 1 of the RGraph paper has them.
//
//   weftrun -n 2 graph_sssp GRAPH SOURCE
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "in_job.hpp"
#include "weft/graph.hpp"

using namespace weft::graph;  // NOLINT(google-build-using-namespace): an example

namespace {

void run(weft::transport::Job& job, int argc, char** argv) {
  check_usage(argc == 3, "graph_sssp GRAPH SOURCE");
  const Graph graph = loadGraph(job, argv[1], {.weights = Weights::file});
  const VertexId source = static_cast<VertexId>(std::strtoull(argv[2], nullptr, 10));
  check_usage(source < graph.num_vertices(), "graph_sssp GRAPH SOURCE, a vertex of the graph");

  constexpr std::uint64_t kInfinity = std::numeric_limits<std::uint64_t>::max();
  VertexArray<std::uint64_t> distance(graph, kInfinity);
  VertexSet in(graph), out(graph);
  distance[source] = 0;
  in.insert(source);
  for (std::uint64_t active = 1; active > 0; swap(in, out)) {
    out.clear();
    active = processEdges(
        graph, distance, in, out,
        [](VertexId, std::uint64_t mine, const Neighbors& edges, auto& push) {
          for (const auto& [to, weight] : edges) push(to, mine + weight);
        },
        [](std::uint64_t& mine, std::uint64_t other) { return atomic_min(mine, other); });
  }

  const auto sum = processVertices(
      graph, [&](VertexId v) { return distance[v] == kInfinity ? 0 : distance[v]; });
  if (job.rank() == 0) std::printf("sum of distances %llu\n", static_cast<unsigned long long>(sum));
}

}  // namespace

int main(int argc, char** argv) {
  return in_job("graph_sssp", [&](weft::transport::Job& job) { run(job, argc, argv); });
}
