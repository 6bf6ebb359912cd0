// sssp: shortest paths from a vertex, as algorithm 1 of the RGraph paper has them.
//
//   weftrun -n 2 graph_sssp GRAPH SOURCE
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "weft/graph.hpp"

using namespace weft::graph;  // NOLINT(google-build-using-namespace): an example

int main(int argc, char** argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: graph_sssp GRAPH SOURCE\n"), 2;
  weft::transport::Job job;
  const Graph graph = loadGraph(job, argv[1], {.weights = Weights::file});
  const VertexId source = static_cast<VertexId>(std::strtoull(argv[2], nullptr, 10));
  if (source >= graph.num_vertices()) return std::fprintf(stderr, "no such vertex\n"), 2;

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
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "graph_sssp: %s\n", error.what());
  return 1;
}
