#pragma once
// What PageRank's vertices have at the beginning, and get in an iteration beside what comes along
// edges: the one thing in which Gemini's definition, the normalized one and the personalised one
// differ. Used by one thread, but of() by all.
#include <string>
#include <vector>

#include "weft/graph/algorithms.hpp"

namespace weft::graph {

class Restart {
 public:
  // Throws bad_argument, on all ranks alike, for rules that are none.
  Restart(const Graph& graph, const PageRankOptions& rules)
      : damping_(rules.damping),
        spreads_(rules.is_normalized()),
        unit_(spreads_ ? 1 / static_cast<double>(graph.num_vertices()) : 1) {
    if (!(damping_ >= 0 && damping_ <= 1))
      throw Error({Code::bad_argument,
                   "pagerank: the damping factor is from 0 to 1, not " + std::to_string(damping_)});
    if (!rules.sources.empty()) units_ = Buffer<double>(nullptr, graph.num_vertices());
    for (const VertexId source : rules.sources) {
      if (source >= graph.num_vertices())
        throw Error({Code::bad_argument, "pagerank: there is no vertex " + std::to_string(source) +
                                             " to restart from"});
      units_[source] += 1 / static_cast<double>(rules.sources.size());
    }
    set_dangling(0);
  }

  double damping() const { return damping_; }
  // Whether what vertices without edges out have is spread by set_dangling, and not lost.
  bool spreads() const { return spreads_; }
  void set_dangling(double sum) { each_ = 1 - damping_ + damping_ * sum; }

  double begin(VertexId v) const { return units_.empty() ? unit_ : units_[v]; }
  double of(VertexId v) const { return each_ * begin(v); }

 private:
  double damping_;
  bool spreads_;
  double unit_;           // of every vertex, if units_ is empty
  Buffer<double> units_;  // of all, as a rank takes vertices of others over
  double each_ = 0;       // for a unit, in this iteration
};

}  // namespace weft::graph
