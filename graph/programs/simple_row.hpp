#pragma once
// SimpleRow: a vertex's neighbors in the simple undirected graph below a graph.
#include <algorithm>
#include <vector>

#include "weft/graph/graph.hpp"

namespace weft::graph {

// The other ends of a vertex's edges out and in, each once and in order, without the vertex itself.
// An object serves one thread for one vertex after the other.
class SimpleRow {
 public:
  // The graph has edges in, and the vertex is the rank's own.
  void fill(const Graph& graph, VertexId vertex) {
    const VertexId row = vertex - graph.first();
    take(graph.out().row(row), vertex, vertices_);
    if (graph.undirected()) {
      directions_.assign(vertices_.size(), 2);
      return;
    }
    out_.swap(vertices_);
    take(graph.in().row(row), vertex, in_);
    merge();
  }
  const std::vector<VertexId>& vertices() const { return vertices_; }
  // For each of them, whether edges lead one way (1) or both (2).
  const std::vector<std::uint8_t>& directions() const { return directions_; }

 private:
  static void take(const Neighbors& edges, VertexId vertex, std::vector<VertexId>& ends) {
    ends.assign(edges.vertices(), edges.vertices() + edges.size());
    if (!std::is_sorted(ends.begin(), ends.end())) std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    const auto self = std::lower_bound(ends.begin(), ends.end(), vertex);
    if (self != ends.end() && *self == vertex) ends.erase(self);
  }
  void merge() {
    vertices_.clear();
    directions_.clear();
    auto out = out_.begin(), in = in_.begin();
    while (out != out_.end() || in != in_.end()) {
      const bool is_out = out != out_.end() && (in == in_.end() || *out <= *in);
      const bool is_in = in != in_.end() && (out == out_.end() || *in <= *out);
      vertices_.push_back(is_out ? *out : *in);
      directions_.push_back(is_out && is_in ? 2 : 1);
      out += is_out ? 1 : 0;
      in += is_in ? 1 : 0;
    }
  }

  std::vector<VertexId> vertices_, out_, in_;
  std::vector<std::uint8_t> directions_;
};

}  // namespace weft::graph
