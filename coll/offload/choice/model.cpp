#include "coll/offload/choice/model.hpp"

#include <algorithm>
#include <cmath>

#include "coll/offload/choice/paper_tables.hpp"

namespace weft::offload {

namespace {
// 64 switches of 64 children.
constexpr int kMostOfTwoLevels = 64 * 64;
}  // namespace

Costs counts(Method method, const Case& given) noexcept {
  const double p = method == Method::socket ? given.processes / 2.0 : given.processes;
  const auto b = static_cast<double>(given.bytes);
  if (method == Method::hosts) {
    const double steps = std::log2(std::max(1, given.nodes));
    return {1, p, steps, steps * p, steps * b, steps * p * b, 0};
  }
  // The hosts under a switch. What the switches take is fitted to two levels; of a third nothing
  // was measured: it is reckoned as half as much again, the constant too, which is in part the
  // hosts'.
  const bool has_three = given.nodes > kMostOfTwoLevels;
  const double levels = has_three ? 1.5 : 1;
  const double children =
      levels * (has_three ? std::cbrt(given.nodes) : std::sqrt(std::max(1, given.nodes)));
  return {levels, p, b, p * b, children, children * p, children * b};
}

Costs fit(Method method, int most_nodes) {
  std::vector<Costs> rows;
  for (const PaperRow& row : kPaperRows) {
    if (row.nodes > most_nodes) continue;
    for (std::size_t i = 0; i < 3; ++i) {
      const double us = row.us[static_cast<std::size_t>(method) * 3 + i];
      Costs one = counts(method, {row.nodes, kPaperProcesses[i], row.bytes});
      for (double& count : one) count /= us;
      rows.push_back(one);
    }
  }
  // Sets one cost after the other to its optimum given the others, until nothing changes.
  double products[kNumCosts][kNumCosts] = {}, sums[kNumCosts] = {};
  for (const Costs& row : rows)
    for (std::size_t i = 0; i < kNumCosts; ++i) {
      sums[i] += row[i];
      for (std::size_t j = 0; j < kNumCosts; ++j) products[i][j] += row[i] * row[j];
    }
  Costs costs{};
  for (int round = 0; round < 200'000; ++round) {
    double moved = 0;
    for (std::size_t i = 0; i < kNumCosts; ++i) {
      if (products[i][i] == 0) continue;
      double rest = sums[i];
      for (std::size_t j = 0; j < kNumCosts; ++j)
        if (j != i) rest -= products[i][j] * costs[j];
      const double best = std::max(0.0, rest / products[i][i]);
      moved = std::max(moved, std::abs(best - costs[i]) * std::sqrt(products[i][i]));
      costs[i] = best;
    }
    if (moved < 1e-11) break;
  }
  return costs;
}

const Costs& fitted(Method method) noexcept {
  // As fit(method, 9) gives them, which a test checks.
  static constexpr Costs kFitted[] = {
      {1.01422, 0.046623, 2.23944, 0.0411468, 0.00466326, 0.000364575, 0},
      {7.10277, 0.0875909, 0.00966528, 7.20343e-05, 0.245272, 0.00754891, 0.0022698},
      {3.85699, 0.18568, 0.0050178, 7.79801e-05, 0.763904, 0.0230892, 0.00399836},
  };
  return kFitted[static_cast<std::size_t>(method)];
}

double predict_us(Method method, const Case& given) noexcept {
  if (method == Method::hierarchy) {
    // Inside the node as in Node mode, then the exchanges of one process per node.
    const Costs& node = fitted(Method::node);
    const auto p = static_cast<double>(given.processes), b = static_cast<double>(given.bytes);
    return node[1] * p + node[2] * b + node[3] * p * b +
           predict_us(Method::hosts, {given.nodes, 1, given.bytes});
  }
  const Costs often = counts(method, given);
  double us = 0;
  for (std::size_t i = 0; i < kNumCosts; ++i) us += often[i] * fitted(method)[i];
  return us;
}

bool offload_wins(bool by_socket, const Case& given) noexcept {
  if (given.nodes < 2) return false;
  return predict_us(by_socket ? Method::socket : Method::node, given) <
         std::min(predict_us(Method::hosts, given), predict_us(Method::hierarchy, given));
}

}  // namespace weft::offload
