#include <cmath>

#include "algorithms.hpp"
#include "delta_stepping.hpp"
#include "graph/common/agree.hpp"

namespace weft::graph {
namespace {

// Buckets as wide as were best where most edges leave hubs (R-MAT, social networks: 0.031 of the
// largest weight, or twice that) and on grids (4 edges: once to 4 times it), and between them by
// the same power.
std::uint64_t bucket_width(const EdgeFacts& edges) {
  const double share =
      std::clamp(0.031 * std::pow(16 / std::max(1.0, edges.mean_degree), 3), 0.031, 16.0);
  return std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(share * static_cast<double>(edges.largest_weight)));
}

template <class D>
void run(const Graph& graph, VertexId source, const RunOptions& options, std::uint64_t delta,
         Sssp& result) {
  DeltaStepping<D, false> paths(graph, options, static_cast<D>(delta));
  if (options.resume_step == 0) {
    if (graph.owns(source)) paths.add(source, 0);
  } else {
    // The set of those whose neighbors are notified is not saved.
    for (VertexId v = graph.first(); v < graph.last(); ++v)
      if (result.distance[v] != kFar) paths.add(v, static_cast<D>(result.distance[v]));
  }
  const auto keep = [&] {
    for (VertexId v = graph.first(); v < graph.last(); ++v) {
      const D distance = paths.distance(v);
      result.distance[v] = distance == paths.kInfinite ? kFar : distance;
    }
  };
  std::function<void(std::uint32_t)> after_step;
  if (options.wants_save)
    after_step = [&](std::uint32_t step) {
      if (!options.saves_after(step)) return;
      keep();
      options.save(step);
    };
  paths.run("sssp", options.resume_step, after_step);
  keep();
  result.num_steps = paths.num_steps();
}

}  // namespace

void sssp(const Graph& graph, VertexId source, const RunOptions& options, Sssp& result) {
  if (options.mode == Mode::paper) {
    paper_sssp(graph, source, options, result);
    return;
  }
  const std::uint64_t delta = options.delta > 0 ? options.delta : bucket_width(graph.edge_facts());
  // No path has more edges than there are vertices.
  if (graph.edge_facts().largest_weight <= 0xfffffffe / graph.num_vertices() && delta < 0xffffffff)
    run<std::uint32_t>(graph, source, options, delta, result);
  else
    run<std::uint64_t>(graph, source, options, delta, result);
}

}  // namespace weft::graph
