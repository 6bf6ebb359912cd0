#include "tools/weft-info/tune_offload.hpp"

#include <fmt/core.h>
#include <stdio.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "base/wait.hpp"
#include "coll/offload/offload.hpp"
#include "tools/weft-info/tune_rounds.hpp"

namespace weft {
namespace {

constexpr std::uint32_t kSwitchContext = 1, kHostsContext = 2;
// Lengths in bytes, each at most half the next one.
constexpr std::size_t kLengths[] = {8, 64, 512, 4096, 32768, 262144, 2097152};

// The time of a call on the slowest process, in nanoseconds.
Status time_calls(coll::Team& team, coll::Team& hosts, std::vector<double>& data, std::size_t count,
                  const coll::Reduction& sum, const coll::Reduction& most, double& ns) {
  const int times = count <= 512 ? 20 : 2;
  if (Status status = coll::barrier(hosts); !status) return status;
  const std::uint64_t begin = now_ns();
  for (int i = 0; i < times; ++i)
    if (Status status = coll::allreduce(team, nullptr, data.data(), count, sum); !status)
      return status;
  ns = static_cast<double>(now_ns() - begin) / times;
  return coll::allreduce(hosts, nullptr, &ns, 1, most);
}

}  // namespace

Status tune_offload(tagged::Engine& engine) {
  std::vector<int> members(static_cast<std::size_t>(engine.size()));
  std::iota(members.begin(), members.end(), 0);
  coll::Team by_switch(engine, members, kSwitchContext), hosts(engine, members, kHostsContext);
  hosts.keep_to_hosts();
  by_switch.offload()->force();
  const offload::SumOp sum(innet::Element::f64, innet::Operation::sum),
      most(innet::Element::f64, innet::Operation::max);
  const bool prints = engine.rank() == 0;
  std::vector<double> data(kLengths[std::size(kLengths) - 1] / sizeof(double));
  std::size_t first = 0, end = 0;  // the lengths where the switch is faster, from the shortest one
  for (std::size_t at = 0; at < std::size(kLengths); ++at) {
    const std::size_t count = kLengths[at] / sizeof(double);
    std::vector<double> switch_ns, hosts_ns;
    for (int round = 0; round <= kRounds; ++round) {
      double one = 0, other = 0;
      for (coll::Team* team : {&by_switch, &hosts})
        if (Status status = time_calls(*team, hosts, data, count, sum.reduction(), most.reduction(),
                                       team == &hosts ? other : one);
            !status)
          return status;
      // Rank 0 leads its node.
      double is_by_switch = by_switch.offload()->has_group() ? 1 : 0;
      if (Status status = coll::bcast(hosts, &is_by_switch, sizeof is_by_switch, 0); !status)
        return status;
      if (is_by_switch == 0) {
        by_switch.close_offload();
        if (prints) fmt::print("# the switch is not used: WEFT_LOG=warn says why\n");
        return {};
      }
      // The first round makes the group.
      if (round == 0) continue;
      switch_ns.push_back(one);
      hosts_ns.push_back(other);
    }
    const double one = median(switch_ns), other = median(hosts_ns);
    if (prints)
      fmt::print("# {} bytes: {:.1f} us by the switch, {:.1f} us by the hosts\n", kLengths[at],
                 one / 1000, other / 1000);
    if (one >= other) continue;
    if (first == end) first = at;
    if (end == at || first == at) end = at + 1;
  }
  by_switch.close_offload();
  if (!prints) return {};
  if (first == end)
    fmt::print(
        "# the hosts are faster at all lengths\n"
        "export WEFT_OFFLOAD=off\n");
  else
    fmt::print(
        "# for jobs of this shape\n"
        "export WEFT_OFFLOAD_WHEN={}-{}\n",
        first == 0 ? 1 : kLengths[first], kLengths[end - 1]);
  return {};
}

}  // namespace weft
