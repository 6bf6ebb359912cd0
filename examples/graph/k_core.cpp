// k_core: how deep every vertex lies inside its graph. A vertex's core number is the largest k such
// that it is in a part of the graph where every vertex has k neighbors; edges count both ways.
//
//   weftrun -n 2 graph_k_core GRAPH [OUT]
//
// For k = 1, 2, ...: vertices with fewer than k neighbors left are removed, which lowers the
// degrees of their neighbors, until none is removed any more (Matula, Beck, J. ACM 1983). Vertices
// that are removed in round k have core number k - 1. OUT: each rank writes those of its vertices
// to OUT.RANK.
#include <algorithm>
#include <cstdio>

#include "in_job.hpp"
#include "weft/graph.hpp"

using namespace weft::graph;  // NOLINT(google-build-using-namespace): an example

namespace {

void run(weft::transport::Job& job, int argc, char** argv) {
  check_usage(argc == 2 || argc == 3, "graph_k_core GRAPH [OUT]");
  const Graph graph = loadGraph(job, argv[1], {.undirected = true});

  VertexArray<std::uint32_t> left(graph, 0), lost(graph, 0), core(graph, 0);
  VertexSet alive(graph), going(graph), touched(graph);
  std::uint64_t num_alive = processVertices(graph, [&](VertexId v) {
    left[v] = static_cast<std::uint32_t>(graph.out_degree(v));
    alive.insert(v);
    return std::uint64_t{1};
  });
  std::uint32_t k = 0;
  while (num_alive > 0) {
    ++k;
    for (;;) {
      going.clear();
      const std::uint64_t num_going = processVertices(graph, alive, [&](VertexId v) {
        if (left[v] >= k) return std::uint64_t{0};
        core[v] = k - 1;
        alive.remove(v);
        going.insert(v);
        return std::uint64_t{1};
      });
      if (num_going == 0) break;
      num_alive -= num_going;
      touched.clear();
      processEdges(
          graph, lost, going, touched,
          [](VertexId, std::uint32_t, const Neighbors& edges, auto& push) {
            for (const auto& [to, weight] : edges) push(to, 1u);
          },
          [](std::uint32_t& mine, std::uint32_t more) {
            atomic_add(mine, more);
            return true;
          },
          {.mirrors = Mirrors::clear});
      processVertices(graph, touched, [&](VertexId v) {
        left[v] -= std::min(left[v], lost[v]);
        lost[v] = 0;
        return 0;
      });
    }
  }
  const auto innermost =
      processVertices(graph, [&](VertexId v) { return std::uint64_t{core[v] + 1 == k ? 1u : 0u}; });
  const auto sum = processVertices(graph, [&](VertexId v) { return std::uint64_t{core[v]}; });
  if (job.rank() == 0)
    std::printf("largest core number %u, of %llu vertices; sum of core numbers %llu\n", k - 1,
                static_cast<unsigned long long>(innermost), static_cast<unsigned long long>(sum));
  if (argc == 3) write_values(graph, core, argv[2]);
}

}  // namespace

int main(int argc, char** argv) {
  return in_job("graph_k_core", [&](weft::transport::Job& job) { run(job, argc, argv); });
}
