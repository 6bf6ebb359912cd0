// SSSP-MC as OpenSM's sssp engine builds it.
//
// Link weights come from unicast routing alone: every direction of a cable starts at P squared (P
// nodes), and each destination's shortest paths add to the cables they use. Groups never change
// them, so the same root gives the same tree. Which of several equal paths is taken depends on the
// order in which a heap hands out equal keys, so the heap is OpenSM's kind: four children, the last
// of equal ones first.
#include <algorithm>
#include <numeric>

#include "routing/hops.hpp"
#include "routing/tree_building.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

class Heap {
 public:
  explicit Heap(std::vector<uint64_t>* keys) : keys_(*keys), at_(keys->size()) {}
  void insert(uint32_t item) {
    at_[item] = items_.size();
    items_.push_back(item);
    up(items_.size() - 1);
  }
  void decreased(uint32_t item) { up(at_[item]); }
  bool empty() const { return items_.empty(); }
  uint32_t pop() {
    const uint32_t top = items_[0];
    const uint32_t last = items_.back();
    items_.pop_back();
    if (!items_.empty()) {
      place(last, 0);
      down(0);
    }
    return top;
  }

 private:
  void place(uint32_t item, size_t at) {
    items_[at] = item;
    at_[item] = at;
  }
  void up(size_t i) {
    const uint32_t item = items_[i];
    for (; i > 0 && keys_[items_[(i - 1) / 4]] > keys_[item]; i = (i - 1) / 4) {
      place(items_[(i - 1) / 4], i);
    }
    place(item, i);
  }
  void down(size_t i) {
    const uint32_t item = items_[i];
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
  std::vector<uint64_t>& keys_;
  std::vector<size_t> at_;
  std::vector<uint32_t> items_;
};

}  // namespace

Status route_opensm_sssp(const Topology& topology, const std::vector<Group>& groups,
                         std::vector<Tree>* trees) {
  trees->clear();
  const uint32_t n = topology.num_switches();
  std::vector<uint32_t> hosts(n);
  for (uint32_t e = 0; e < topology.num_hosts; ++e) ++hosts[topology.endpoints[e].on_switch];
  const uint32_t num_cas = static_cast<uint32_t>(topology.nodes.size() - n);
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto little_endian = [&](uint32_t s) {
    return __builtin_bswap64(topology.nodes[topology.switch_nodes[s]].guid);
  };
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return little_endian(a) < little_endian(b); });
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return hosts[a] > hosts[b]; });
  const uint64_t start = uint64_t{n + num_cas} * (n + num_cas);
  std::vector<uint64_t> weight(topology.arcs.size(), start), distance(n);
  std::vector<uint32_t> back(n);  // the arc from the parent to the switch
  const auto dijkstra = [&](uint32_t source) {
    std::fill(distance.begin(), distance.end(), UINT64_MAX);
    std::fill(back.begin(), back.end(), kNone);
    distance[source] = 0;
    Heap heap(&distance);
    for (const uint32_t s : order) heap.insert(s);
    while (!heap.empty()) {
      const uint32_t s = heap.pop();
      if (distance[s] == UINT64_MAX) break;
      for (uint32_t a = topology.arc_begin[s]; a < topology.arc_begin[s + 1]; ++a) {
        const uint32_t to = topology.arcs[a].to;
        if (distance[s] + weight[a] >= distance[to]) continue;
        distance[to] = distance[s] + weight[a];
        back[to] = a;
        heap.decreased(to);
      }
    }
  };
  const auto spread = [&](uint32_t source) {
    dijkstra(source);
    for (uint32_t s = 0; s < n; ++s) {
      for (uint32_t at = s; at != source && back[at] != kNone; at = topology.arc_from[back[at]]) {
        weight[back[at]] += 1 + hosts[s];
      }
    }
  };
  for (const uint32_t s : order) {
    for (uint32_t h = 0; h < hosts[s]; ++h) spread(s);
  }
  for (const uint32_t s : order) spread(s);

  std::vector<Tree> minhop;  // the root rule is the same
  const Status status = route_minhop(topology, groups, &minhop);
  if (!status.ok()) return status;
  for (Tree& like : minhop) {
    dijkstra(like.root);
    like.switches.assign(1, like.root);
    like.links.clear();
    std::vector<bool> in(n);
    in[like.root] = true;
    for (uint32_t at : member_switches(topology, like.members)) {
      for (; !in[at]; at = topology.arc_from[back[at]]) {
        in[at] = true;
        like.switches.push_back(at);
        like.links.push_back(back[at]);
      }
    }
    trees->push_back(std::move(like));
  }
  return Code::ok;
}

}  // namespace weft::mcast
