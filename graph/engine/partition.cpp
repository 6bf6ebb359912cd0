// The partition of vertices in chunks, section 3 of the RGraph paper.
//
// Every rank owns consecutive vertices with all their edges out, so a cut is P + 1 boundaries.
// F of a part is alpha * |its vertices - average| + |its edges - average|. From the greedy cut, the
// part with the largest F and the worse of its neighbors try every boundary between them; if none
// is better, the other pairs do, from the worst on; until no pair can be improved. Every change
// lowers the sum of all F, so this ends.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/graph/graph.hpp"

namespace weft::graph {
namespace {

// Smaller gains are rounding.
constexpr double kLeastGain = 1e-9;

class Cutter {
 public:
  Cutter(std::span<const std::uint32_t> degrees, double alpha, std::vector<VertexId>& cut)
      : degrees_(degrees), alpha_(alpha), cut_(cut), num_parts_(cut.size() - 1) {
    for (std::size_t p = 0; p < num_parts_; ++p) {
      edges_.push_back(std::accumulate(degrees.begin() + static_cast<std::ptrdiff_t>(cut[p]),
                                       degrees.begin() + static_cast<std::ptrdiff_t>(cut[p + 1]),
                                       std::uint64_t{0}));
      num_edges_ += static_cast<double>(edges_.back());
    }
  }

  double imbalance() const {
    double sum = 0;
    for (std::size_t p = 0; p < num_parts_; ++p) sum += imbalance(p);
    return sum;
  }

  double refine() {
    while (improve_one()) {
    }
    return imbalance();
  }

 private:
  double imbalance(double num_vertices, double num_edges) const {
    const auto parts = static_cast<double>(num_parts_);
    return alpha_ * std::abs(num_vertices - static_cast<double>(degrees_.size()) / parts) +
           std::abs(num_edges - num_edges_ / parts);
  }
  double imbalance(std::size_t part) const {
    return imbalance(static_cast<double>(cut_[part + 1] - cut_[part]),
                     static_cast<double>(edges_[part]));
  }

  bool improve_one() {
    // Pairs of neighbors by what their worse part and then their other part has.
    std::vector<std::size_t> lefts(num_parts_ - 1);
    std::iota(lefts.begin(), lefts.end(), std::size_t{0});
    const auto badness = [&](std::size_t left) {
      const double a = imbalance(left), b = imbalance(left + 1);
      return std::pair(std::max(a, b), std::min(a, b));
    };
    std::sort(lefts.begin(), lefts.end(),
              [&](std::size_t a, std::size_t b) { return badness(a) > badness(b); });
    return std::any_of(lefts.begin(), lefts.end(), [&](std::size_t left) { return improve(left); });
  }

  // Tries every boundary between part `left` and the next. Neither may lose all its vertices.
  bool improve(std::size_t left) {
    const VertexId begin = cut_[left], end = cut_[left + 2];
    const std::uint64_t both = edges_[left] + edges_[left + 1];
    double best = imbalance(left) + imbalance(left + 1) - kLeastGain * (1 + num_edges_);
    VertexId best_boundary = cut_[left + 1];
    std::uint64_t best_edges = 0, edges = 0;
    for (VertexId boundary = begin; boundary + 1 < end;) {
      edges += degrees_[boundary++];
      const double now =
          imbalance(static_cast<double>(boundary - begin), static_cast<double>(edges)) +
          imbalance(static_cast<double>(end - boundary), static_cast<double>(both - edges));
      if (now >= best) continue;
      best = now;
      best_boundary = boundary;
      best_edges = edges;
    }
    if (best_boundary == cut_[left + 1]) return false;
    cut_[left + 1] = best_boundary;
    edges_[left] = best_edges;
    edges_[left + 1] = both - best_edges;
    return true;
  }

  std::span<const std::uint32_t> degrees_;
  double alpha_;
  std::vector<VertexId>& cut_;
  std::size_t num_parts_;
  std::vector<std::uint64_t> edges_;  // of each part
  double num_edges_ = 0;
};

}  // namespace

double refine_cut(std::span<const std::uint32_t> degrees, double alpha,
                  std::vector<VertexId>& cut) {
  return Cutter(degrees, alpha, cut).refine();
}

double cut_imbalance(std::span<const std::uint32_t> degrees, double alpha,
                     const std::vector<VertexId>& cut) {
  std::vector<VertexId> same = cut;
  return Cutter(degrees, alpha, same).imbalance();
}

std::vector<VertexId> shared_cut(std::span<const std::uint32_t> degrees,
                                 std::span<const double> shares) {
  const auto num_vertices = static_cast<VertexId>(degrees.size());
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  double num_edges = 0;
  for (const std::uint32_t degree : degrees) num_edges += degree;
  std::vector<VertexId> cut{0};
  VertexId vertex = 0;
  double taken = 0, wanted = 0;
  for (std::size_t part = 0; part + 1 < shares.size(); ++part) {
    wanted += num_edges * shares[part] / all;
    while (vertex < num_vertices && taken < wanted) taken += degrees[vertex++];
    const auto parts_behind = static_cast<VertexId>(shares.size() - part - 1);
    const VertexId boundary =
        std::min(std::max(vertex, cut.back() + 1), num_vertices - parts_behind);
    for (; vertex < boundary; ++vertex) taken += degrees[vertex];
    cut.push_back(boundary);
  }
  cut.push_back(num_vertices);
  return cut;
}

std::vector<VertexId> greedy_cut(std::span<const std::uint32_t> degrees, double alpha,
                                 int num_parts) {
  const auto num_vertices = static_cast<VertexId>(degrees.size());
  double left = alpha * static_cast<double>(degrees.size());
  for (const std::uint32_t degree : degrees) left += degree;
  std::vector<VertexId> cut{0};
  VertexId vertex = 0;
  for (int part = 0; part + 1 < num_parts; ++part) {
    const double share = left / (num_parts - part);
    double taken = 0;
    while (vertex < num_vertices && taken < share) taken += alpha + degrees[vertex++];
    left -= taken;
    // No part is left without a vertex.
    const auto parts_behind = static_cast<VertexId>(num_parts - part - 1);
    vertex = std::min(std::max(vertex, cut.back() + 1), num_vertices - parts_behind);
    cut.push_back(vertex);
  }
  cut.push_back(num_vertices);
  return cut;
}

}  // namespace weft::graph
