#pragma once
// The rules that OpenSM's engines minhop and sssp share: the order of switches and the choice of a
// tree's root.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

// Dense switch numbers in the order in which OpenSM goes through its switches: by GUID, its bytes
// in network order compared as a number of a little-endian machine.
inline std::vector<uint32_t> opensm_switch_order(const Topology& topology) {
  std::vector<uint32_t> order(topology.num_switches());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](uint32_t s) {
    return __builtin_bswap64(topology.nodes[topology.switch_nodes[s]].guid);
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  return order;
}

inline constexpr uint8_t kOpensmNoPath = 255;

// The root of a group's tree: the first switch, in OpenSM's order, whose furthest member is
// nearest. A switch counts as many hops as are between it and the root, and one more if it is there
// for its hosts only. row(t)[s] is the hops from switch s to switch t, kOpensmNoPath if there is no
// path. kNone if no switch reaches all members.
template <typename Row>
uint32_t opensm_root(const Topology& topology, const std::vector<uint32_t>& order,
                     const std::vector<uint32_t>& members, Row row) {
  std::vector<uint32_t> targets, themselves;
  for (const uint32_t m : members) {
    const Endpoint& end = topology.endpoints[m];
    (end.switch_port == 0 ? themselves : targets).push_back(end.on_switch);
  }
  for (std::vector<uint32_t>* list : {&targets, &themselves}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  std::vector<uint8_t> worst(topology.num_switches(), 0);
  const auto include = [&](uint32_t target, uint8_t extra) {
    const uint8_t* hops = row(target);
    for (uint32_t s = 0; s < worst.size(); ++s) {
      const uint8_t d = hops[s] == kOpensmNoPath ? hops[s] : static_cast<uint8_t>(hops[s] + extra);
      worst[s] = std::max(worst[s], d);
    }
  };
  for (const uint32_t target : themselves) include(target, 0);
  for (const uint32_t target : targets) {
    if (!std::binary_search(themselves.begin(), themselves.end(), target)) include(target, 1);
  }
  uint32_t root = order[0];
  for (const uint32_t s : order) {
    if (worst[s] < worst[root]) root = s;
  }
  return worst[root] == kOpensmNoPath ? kNone : root;
}

}  // namespace weft::mcast
