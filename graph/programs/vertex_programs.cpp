// The four algorithms as in the RGraph paper: by push, over the public interface alone.
#include <cmath>

#include "algorithms.hpp"
#include "graph/common/agree.hpp"
#include "lengths.hpp"
#include "restart.hpp"

namespace weft::graph {
namespace {

void report_step(const RunOptions& options, const char* what, std::uint64_t step) {
  if (options.progress) options.progress(what, step);
}

}  // namespace

void paper_bfs(const Graph& graph, VertexId source, const RunOptions& options, Bfs& result) {
  VertexArray<VertexId> parent(graph, kNoVertex);
  VertexSet in(graph), out(graph);
  std::uint32_t depth = options.resume_step == 0 ? 0 : last_final_depth(graph, result);
  processVertices(graph, [&](VertexId v) {
    if (options.resume_step == 0) {
      result.depth[v] = v == source ? 0 : kUnreached;
      result.parent[v] = v == source ? v : kNoVertex;
    }
    if (result.parent[v] == kNoVertex) result.depth[v] = kUnreached;
    parent[v] = result.parent[v];
    if (result.depth[v] == depth) in.insert(v);
    return 0;
  });
  const auto keep = [&] {
    processVertices(graph, [&](VertexId v) {
      result.parent[v] = parent[v];
      return 0;
    });
  };
  for (std::uint64_t active = 1; active > 0; swap(in, out)) {
    report_step(options, "bfs", ++depth);
    out.clear();
    active = processEdges(
        graph, parent, in, out,
        [](VertexId v, VertexId, const Neighbors& edges, auto& push) {
          for (const auto& [to, weight] : edges) push(to, v);
        },
        [](VertexId& mine, VertexId candidate) { return atomic_claim(mine, kNoVertex, candidate); },
        options.step);
    processVertices(graph, out, [&](VertexId v) {
      result.depth[v] = depth;
      return 0;
    });
    if (active == 0 || !options.saves_after(depth)) continue;
    keep();
    options.save(depth);
  }
  keep();
  result.num_steps = depth;
}

namespace {

template <class Lengths>
void run_sssp(const Graph& graph, VertexId source, const RunOptions& options, Sssp& result) {
  VertexArray<std::uint64_t> distance(graph, kFar);
  VertexSet in(graph), out(graph);
  result.num_steps = options.resume_step;
  processVertices(graph, [&](VertexId v) {
    if (options.resume_step == 0) result.distance[v] = v == source ? 0 : kFar;
    distance[v] = result.distance[v];
    // The set of those whose neighbors are notified is not saved.
    if (distance[v] != kFar) in.insert(v);
    return 0;
  });
  const auto keep = [&] {
    processVertices(graph, [&](VertexId v) {
      result.distance[v] = distance[v];
      return 0;
    });
  };
  for (std::uint64_t active = 1; active > 0; swap(in, out)) {
    report_step(options, "sssp", ++result.num_steps);
    out.clear();
    active = processEdges(
        graph, distance, in, out,
        [](VertexId, std::uint64_t mine, const Neighbors& edges, auto& push) {
          for (const auto& [to, weight] : edges) push(to, Lengths::add(mine, weight));
        },
        [](std::uint64_t& mine, std::uint64_t candidate) { return atomic_min(mine, candidate); },
        options.step);
    if (active == 0 || !options.saves_after(result.num_steps)) continue;
    keep();
    options.save(result.num_steps);
  }
  keep();
}

}  // namespace

void paper_sssp(const Graph& graph, VertexId source, const RunOptions& options, Sssp& result) {
  if (graph.has_real_weights())
    run_sssp<RealLengths>(graph, source, options, result);
  else
    run_sssp<WholeLengths<std::uint64_t>>(graph, source, options, result);
}

void paper_pagerank(const Graph& graph, const PageRankOptions& rules, const RunOptions& options,
                    PageRank& result) {
  Restart restart(graph, rules);
  VertexArray<double> given(graph, 0), sum(graph, 0);
  VertexSet all(graph), touched(graph);
  const auto give = [&](VertexId v) {
    const std::uint64_t degree = graph.out_degree(v);
    given[v] = degree > 0 ? result.rank[v] / static_cast<double>(degree) : 0;
  };
  processVertices(graph, [&](VertexId v) {
    if (options.resume_step == 0) result.rank[v] = restart.begin(v);
    give(v);
    all.insert(v);
    return 0;
  });
  StepOptions step = options.step;
  step.mirrors = Mirrors::clear;
  double change = std::numeric_limits<double>::infinity();
  for (result.num_steps = options.resume_step;
       result.num_steps < rules.iterations && change >= rules.tolerance;) {
    report_step(options, "pagerank", ++result.num_steps);
    touched.clear();
    if (restart.spreads())
      restart.set_dangling(processVertices(
          graph, [&](VertexId v) { return graph.out_degree(v) == 0 ? result.rank[v] : 0.; }));
    processEdges(
        graph, given, sum, all, touched,
        [](VertexId, double mine, const Neighbors& edges, auto& push) {
          for (const auto& [to, weight] : edges) push(to, mine);
        },
        [](double& mine, double more) {
          atomic_add(mine, more);
          return true;
        },
        step);
    change = processVertices(graph, [&](VertexId v) {
      const double old = result.rank[v];
      result.rank[v] = restart.of(v) + restart.damping() * sum[v];
      sum[v] = 0;
      give(v);
      return std::abs(result.rank[v] - old);
    });
    // Going on from the last iteration would add one.
    if (options.saves_after(result.num_steps) && change >= rules.tolerance)
      options.save(result.num_steps);
  }
}

void paper_wcc(const Graph& graph, const RunOptions& options, Wcc& result) {
  if (!graph.undirected())
    throw Error({Code::bad_argument, "components by vertex program need an undirected graph"});
  VertexArray<VertexId> label(graph, 0);
  VertexSet in(graph), out(graph);
  // Mirrors also begin with their own label, so that no owner receives a label it already has.
  const auto begin = [&](VertexId first, VertexId last) {
    for (VertexId v = first; v < last; ++v) label[v] = v;
  };
  if (graph.has_remote_rows())
    begin(0, graph.num_vertices());
  else
    graph.reach().for_each(0, graph.num_vertices(), begin);
  processVertices(graph, [&](VertexId v) {
    if (options.resume_step > 0) label[v] = result.component[v];
    in.insert(v);
    return 0;
  });
  const auto keep = [&] {
    processVertices(graph, [&](VertexId v) {
      result.component[v] = label[v];
      return 0;
    });
  };
  result.num_steps = options.resume_step;
  for (std::uint64_t active = 1; active > 0; swap(in, out)) {
    report_step(options, "wcc", ++result.num_steps);
    out.clear();
    active = processEdges(
        graph, label, in, out,
        [](VertexId, VertexId mine, const Neighbors& edges, auto& push) {
          for (const auto& [to, weight] : edges) push(to, mine);
        },
        [](VertexId& mine, VertexId candidate) { return atomic_min(mine, candidate); },
        options.step);
    if (active == 0 || !options.saves_after(result.num_steps)) continue;
    keep();
    options.save(result.num_steps);
  }
  keep();
}

}  // namespace weft::graph
