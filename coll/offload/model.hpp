#pragma once
// How long an allreduce takes by hosts and by switches, after the paper's measurements: sums of
// what a step costs and how often it is done, with costs fitted to the cells of 4 and 9 nodes
// alone. Those of 16 nodes test it (tests/offload/model_test.cpp). Pure functions; any thread.
//
// Hosts: log2(nodes) exchanges, which all processes of a node share its link for; before and after,
// work that grows with the processes. Switches: once up and down, a switch taking its children's
// packets one after the other; leaders work for their node's (or socket's) processes first. Trees
// are square: as many switches as hosts under each.
#include <array>
#include <cstddef>
#include <vector>

namespace weft::offload {

enum class Method {
  hosts,
  node,
  socket,
  // Hosts whose leaders alone exchange, as Weft does without a switch: not in the paper, put
  // together from the other ways' costs.
  hierarchy
};
struct Case {
  int nodes = 1;
  int processes = 1;  // of a node
  std::size_t bytes = 0;
};

inline constexpr std::size_t kNumCosts = 7;
using Costs = std::array<double, kNumCosts>;
// How often each cost of a method is paid; all 0 for those a method does not have.
Costs counts(Method method, const Case& given) noexcept;
// Costs of none below 0 that fit best, by relative squares, the paper's cells with at most so many
// nodes. Of hosts, node and socket.
Costs fit(Method method, int most_nodes);
// The costs fitted to 4 and 9 nodes, in microseconds.
const Costs& fitted(Method method) noexcept;

double predict_us(Method method, const Case& given) noexcept;
// Whether the method by switches is faster than the hosts', as the paper's hosts do it.
bool offload_wins(bool by_socket, const Case& given) noexcept;

}  // namespace weft::offload
