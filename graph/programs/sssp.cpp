#include <cmath>

#include "algorithms.hpp"
#include "delta_stepping.hpp"
#include "graph/common/agree.hpp"

namespace weft::graph {
namespace {

// Buckets as wide as were best on graphs with hubs and on uniform ones (0.014 of the largest
// weight; half and twice that are as good), and on grids (4 edges: half of it), and between them by
// the same power.
double bucket_width(const EdgeFacts& edges) {
  const double share =
      std::clamp(0.014 * std::pow(16 / std::max(1.0, edges.mean_degree), 2.5), 0.014, 16.0);
  return share * edges.largest_weight;
}

template <class Lengths>
void run(const Graph& graph, VertexId source, const RunOptions& options, double delta,
         Sssp& result) {
  using D = typename Lengths::Word;
  DeltaStepping<Lengths> paths(graph, options, static_cast<typename Lengths::Width>(delta));
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
  double delta = options.delta > 0 ? options.delta : bucket_width(graph.edge_facts());
  if (graph.has_real_weights()) {
    run<RealLengths>(graph, source, options, delta, result);
    return;
  }
  delta = std::max(1.0, std::floor(delta));
  // No path has more edges than there are vertices.
  const std::uint64_t longest_edge = 0xfffffffe / graph.num_vertices();
  if (graph.edge_facts().largest_weight <= static_cast<double>(longest_edge) && delta < 0xffffffff)
    run<WholeLengths<std::uint32_t>>(graph, source, options, delta, result);
  else
    run<WholeLengths<std::uint64_t>>(graph, source, options, delta, result);
}

}  // namespace weft::graph
