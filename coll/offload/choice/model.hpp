#pragma once
// Model of the time of an allreduce by hosts and by switches, after the paper's measurements
// (paper_tables.hpp): sums of the cost of each kind of step times its number, with costs fitted to
// the cells of 4 and 9 nodes alone. Those of 16 nodes test it (tests/offload/model_test.cpp). Pure
// functions; any thread.
//
// Hosts: log2(nodes) exchanges, for which all processes of a node share its link; before and after,
// processing that grows with the processes. Switches: once up and down, a switch taking its
// children's packets one after the other; leaders first reduce for their node's (or socket's)
// processes. Trees are square: as many switches as hosts under each; from 4097 nodes on they have
// three levels, with as many switches or hosts under each.
#include <array>
#include <cstddef>
#include <vector>

namespace weft::offload {

enum class Method {
  hosts,
  node,
  socket,
  // Hosts whose leaders alone exchange, as Weft does without a switch: not in the paper, derived
  // from the other methods' costs.
  hierarchy
};
struct Case {
  int nodes = 1;
  int processes = 1;  // per node
  std::size_t bytes = 0;
};

inline constexpr std::size_t kNumCosts = 7;
using Costs = std::array<double, kNumCosts>;
// The number of times that each cost of a method occurs; 0 for costs that the method does not have.
Costs counts(Method method, const Case& given) noexcept;
// The costs, none below 0, that fit best, by relative squares, the paper's cells with at most
// `most_nodes` nodes. For hosts, node and socket.
Costs fit(Method method, int most_nodes);
// The costs fitted to 4 and 9 nodes, in microseconds.
const Costs& fitted(Method method) noexcept;

double predict_us(Method method, const Case& given) noexcept;
// Returns true if the switches are faster than the hosts, as the paper's hosts do it and as Weft's
// do.
bool offload_wins(bool by_socket, const Case& given) noexcept;

}  // namespace weft::offload
