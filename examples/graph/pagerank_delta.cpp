// pagerank_delta: PageRank by changes alone. Only a vertex whose rank has changed gives something
// to others, so that the work shrinks as the ranks settle.
//
//   weftrun -n 2 graph_pagerank_delta GRAPH [EPSILON [OUT]]
//
// The rank of a vertex is 0.15 and 0.85 times the sum of the shares that it gets; a vertex shares
// its rank equally among its edges out. What a vertex has got and not yet passed on waits; once
// that is more than EPSILON (1e-6) it is added to the rank and shared. What waits at the end is
// added, so that only its consequences are missing: ranks are too low, all together by at most
// 0.85 / 0.15 * EPSILON for each vertex. OUT: each rank writes those of its vertices to OUT.RANK.
#include <cstdio>
#include <cstdlib>

#include "in_job.hpp"
#include "weft/graph.hpp"

using namespace weft::graph;  // NOLINT(google-build-using-namespace): an example

namespace {

constexpr const char* kUsage = "graph_pagerank_delta GRAPH [EPSILON [OUT]], EPSILON above 0";

void run(weft::transport::Job& job, int argc, char** argv) {
  check_usage(argc >= 2 && argc <= 4, kUsage);
  const double epsilon = argc > 2 ? std::strtod(argv[2], nullptr) : 1e-6;
  check_usage(epsilon > 0, kUsage);
  const Graph graph = loadGraph(job, argv[1]);

  VertexArray<double> rank(graph, 0), waits(graph, 0.15), given(graph, 0), got(graph, 0);
  VertexSet active(graph), touched(graph);
  const auto pass_on = [&](VertexId v) {
    if (waits[v] <= epsilon) return std::uint64_t{0};
    rank[v] += waits[v];
    given[v] = waits[v];
    waits[v] = 0;
    active.insert(v);
    return std::uint64_t{1};
  };
  std::uint64_t num_steps = 0, num_pushes = 0;
  std::uint64_t num_active = processVertices(graph, pass_on);
  for (; num_active > 0; ++num_steps) {
    num_pushes += processVertices(graph, active, [&](VertexId v) { return graph.out_degree(v); });
    touched.clear();
    processEdges(
        graph, given, got, active, touched,
        [](VertexId, double mine, const Neighbors& edges, auto& push) {
          const double share = mine / static_cast<double>(edges.size());
          for (const auto& [to, weight] : edges) push(to, share);
        },
        [](double& mine, double more) {
          atomic_add(mine, more);
          return true;
        },
        {.mirrors = Mirrors::clear});
    active.clear();
    num_active = processVertices(graph, touched, [&](VertexId v) {
      waits[v] += 0.85 * got[v];
      got[v] = 0;
      return pass_on(v);
    });
  }
  const double total = processVertices(graph, [&](VertexId v) {
    rank[v] += waits[v];
    return rank[v];
  });
  if (job.rank() == 0)
    std::printf("sum of ranks %.1f\n%llu steps, each over %.2f of the edges in the mean\n", total,
                static_cast<unsigned long long>(num_steps),
                static_cast<double>(num_pushes) / static_cast<double>(graph.num_edges()) /
                    static_cast<double>(num_steps));
  if (argc == 4) write_values(graph, rank, argv[3]);
}

}  // namespace

int main(int argc, char** argv) {
  return in_job("graph_pagerank_delta", [&](weft::transport::Job& job) { run(job, argc, argv); });
}
