// SSSP-MC as OpenSM's sssp engine builds it.
//
// Link weights come from unicast routing alone. Every direction of a cable starts at P squared (P
// ports that have an address: those of hosts, and one of each switch), and each destination's paths
// add to the cables they use; destinations are the hosts, then the switches. Groups never change
// the weights, so the same root gives the same tree. Paths are light rather than short, since a
// weight can double: the hops by which a root is chosen are those of the paths to each switch as
// they were found, which may be more than the fewest.
//
// Which of several equally light paths is taken depends on the order in which the queue hands out
// equal keys. It is a heap of four children in which the last of equal children moves up, filled
// anew for each destination: the switches in OpenSM's order without a distance, then, for a host,
// the host itself.
#include <algorithm>

#include "mcast/routing/hops.hpp"
#include "mcast/routing/opensm/rules.hpp"
#include "mcast/routing/tree_building.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

class Heap {
 public:
  explicit Heap(const std::vector<uint64_t>& keys) : keys_(keys), at_(keys.size()) {}
  // Fills it with 0 to count - 1, whose keys must all be equal.
  void fill(uint32_t count) {
    items_.resize(count);
    for (uint32_t i = 0; i < count; ++i) place(i, i);
  }
  void decreased(uint32_t item) {
    size_t i = at_[item];
    for (; i > 0 && keys_[items_[(i - 1) / 4]] > keys_[item]; i = (i - 1) / 4) {
      place(items_[(i - 1) / 4], i);
    }
    place(item, i);
  }
  bool empty() const { return items_.empty(); }
  uint32_t pop() {
    const uint32_t top = items_[0];
    const uint32_t last = items_.back();
    items_.pop_back();
    if (!items_.empty()) down(last);
    return top;
  }

 private:
  void place(uint32_t item, size_t at) {
    items_[at] = item;
    at_[item] = static_cast<uint32_t>(at);
  }
  void down(uint32_t item) {
    size_t i = 0;
    for (;;) {
      size_t least = 4 * i + 1;
      if (least >= items_.size()) break;
      for (size_t c = least + 1; c < std::min(items_.size(), 4 * i + 5); ++c) {
        if (keys_[items_[c]] <= keys_[items_[least]]) least = c;
      }
      if (keys_[items_[least]] >= keys_[item]) break;
      place(items_[least], i);
      i = least;
    }
    place(item, i);
  }
  const std::vector<uint64_t>& keys_;
  std::vector<uint32_t> at_, items_;
};

// The weighted fabric. Switches are named by their place in OpenSM's order throughout.
class Weighted {
 public:
  explicit Weighted(const Topology& topology)
      : topology_(topology),
        order_(opensm_switch_order(topology)),
        place_(order_.size()),
        attached_(order_.size(), 1),
        distance_(order_.size() + 1),
        back_(order_.size()),
        heap_(distance_) {
    for (uint32_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
    std::vector<uint32_t> hosts(order_.size());
    uint64_t addresses = order_.size();
    for (uint32_t e = 0; e < topology.num_hosts; ++e) {
      const Endpoint& end = topology.endpoints[e];
      ++attached_[place_[end.on_switch]];
      if (topology.nodes[end.node].is_router) continue;  // weighs, but is no destination
      ++hosts[place_[end.on_switch]];
      ++addresses;
    }
    weight_.assign(topology.arcs.size(), addresses * addresses);
    std::vector<uint32_t> by_hosts(order_.size());
    std::iota(by_hosts.begin(), by_hosts.end(), 0);
    std::stable_sort(by_hosts.begin(), by_hosts.end(),
                     [&](uint32_t a, uint32_t b) { return attached_[a] > attached_[b]; });
    for (const uint32_t s : by_hosts) {
      for (uint32_t h = 0; h < hosts[s]; ++h) {
        shortest_paths(s, true);
        add_weights(s);
      }
    }
    hops_.assign(order_.size(), std::vector<uint8_t>(order_.size(), kOpensmNoPath));
    for (const uint32_t s : by_hosts) {
      shortest_paths(s, false);
      note_hops(s);
      add_weights(s);
    }
  }

  // As opensm_root wants it: by dense switch numbers.
  const uint8_t* hops_to(uint32_t dense) const { return hops_[place_[dense]].data(); }
  const std::vector<uint32_t>& order() const { return order_; }

  // Paths from a switch (dense number) to every switch: the arc into each, kNone for the root.
  void paths_from(uint32_t root, std::vector<uint32_t>* into) {
    shortest_paths(place_[root], false);
    into->resize(order_.size());
    for (uint32_t i = 0; i < order_.size(); ++i) (*into)[order_[i]] = back_[i];
  }

 private:
  // From a switch, or from a host on it.
  void shortest_paths(uint32_t source, bool from_host) {
    const uint32_t n = static_cast<uint32_t>(order_.size());
    std::fill(distance_.begin(), distance_.end(), UINT64_MAX);
    std::fill(back_.begin(), back_.end(), kNone);
    heap_.fill(n + from_host);
    uint32_t at = from_host ? n : source;
    distance_[at] = 0;
    heap_.decreased(at);
    if (from_host) {
      heap_.pop();
      distance_[source] = 1;
      heap_.decreased(source);
    }
    while (!heap_.empty()) {
      at = heap_.pop();
      if (distance_[at] == UINT64_MAX) break;
      const uint32_t dense = order_[at];
      for (uint32_t a = topology_.arc_begin[dense]; a < topology_.arc_begin[dense + 1]; ++a) {
        const uint32_t to = place_[topology_.arcs[a].to];
        const uint64_t next = distance_[at] + weight_[a];
        if (next >= distance_[to]) continue;
        distance_[to] = next;
        back_[to] = a;
        heap_.decreased(to);
      }
    }
  }
  uint32_t parent(uint32_t at) const { return place_[topology_.arc_from[back_[at]]]; }
  void add_weights(uint32_t source) {
    for (uint32_t s = 0; s < order_.size(); ++s) {
      for (uint32_t at = s; at != source && back_[at] != kNone; at = parent(at)) {
        weight_[back_[at]] += attached_[s];
      }
    }
  }
  void note_hops(uint32_t source) {
    for (uint32_t s = 0; s < order_.size(); ++s) {
      uint32_t hops = 0;
      uint32_t at = s;
      for (; at != source && back_[at] != kNone; at = parent(at)) ++hops;
      if (at == source) {
        hops_[source][order_[s]] =
            static_cast<uint8_t>(std::min<uint32_t>(hops, kOpensmNoPath - 2));
      }
    }
  }

  const Topology& topology_;
  std::vector<uint32_t> order_;     // place -> dense number
  std::vector<uint32_t> place_;     // dense number -> place
  std::vector<uint32_t> attached_;  // a switch itself, and everything on it that is no switch
  std::vector<uint64_t> weight_;    // of an arc
  std::vector<uint64_t> distance_;  // of a place; the last is the host's
  std::vector<uint32_t> back_;      // the arc from the parent
  Heap heap_;
  std::vector<std::vector<uint8_t>> hops_;  // destination's place, dense number of the source
};

}  // namespace

Status route_opensm_sssp(const Topology& topology, const std::vector<Group>& groups,
                         std::vector<Tree>* trees) {
  trees->clear();
  if (topology.num_switches() == 0) return {Code::bad_argument, "the fabric has no switch"};
  Weighted fabric(topology);
  std::vector<uint32_t> back;
  for (uint32_t g = 0; g < groups.size(); ++g) {
    if (groups[g].members.size() < 2) continue;
    const uint32_t root = opensm_root(topology, fabric.order(), groups[g].members,
                                      [&](uint32_t target) { return fabric.hops_to(target); });
    if (root == kNone) {
      return {Code::not_found, "group " + groups[g].id + ": its members cannot reach each other"};
    }
    fabric.paths_from(root, &back);
    Tree tree;
    tree.color = g;
    tree.root = root;
    tree.members = groups[g].members;
    tree.groups.assign(1, g);
    tree.switches.assign(1, root);
    std::vector<bool> in(topology.num_switches());
    in[root] = true;
    for (uint32_t at : member_switches(topology, groups[g].members)) {
      for (; !in[at]; at = topology.arc_from[back[at]]) {
        in[at] = true;
        tree.switches.push_back(at);
        tree.links.push_back(back[at]);
      }
    }
    trees->push_back(std::move(tree));
  }
  return Code::ok;
}

}  // namespace weft::mcast
