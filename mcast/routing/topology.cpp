// The fabric as the router needs it: dense switch numbers, arcs in compressed rows, endpoints.
#include <algorithm>
#include <unordered_set>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {
std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }
}  // namespace

Status Topology::finish() {
  switch_nodes.clear();
  arcs.clear();
  arc_from.clear();
  endpoints.clear();
  by_guid_.clear();
  by_name_.clear();
  std::vector<uint32_t> dense(nodes.size(), kNone);
  std::unordered_set<uint64_t> guids;
  std::unordered_set<std::string> ids;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    Node& node = nodes[n];
    node.port_guids.resize(node.ports.size());
    ids.insert(node.id);
    if (!guids.insert(node.guid).second) return {Code::bad_argument, node.id + ": duplicate GUID"};
    if (node.is_switch) {
      dense[n] = num_switches();
      switch_nodes.push_back(n);
    }
    for (uint32_t p = 1; p < node.ports.size(); ++p) {
      const Port& far = node.ports[p];
      if (far.node == kNone) continue;
      const std::string here = node.id + "[" + std::to_string(p) + "]";
      if (far.node >= nodes.size() || far.port == 0 || far.port >= nodes[far.node].ports.size()) {
        return {Code::bad_argument, here + ": the far end has no such port"};
      }
      const Port& back = nodes[far.node].ports[far.port];
      if (back.node != n || back.port != p) {
        return {Code::bad_argument, here + ": the far end " + nodes[far.node].id + "[" +
                                        std::to_string(far.port) + "] says otherwise"};
      }
    }
  }
  arc_begin.assign(1, 0);
  for (uint32_t s = 0; s < num_switches(); ++s) {
    const Node& node = nodes[switch_nodes[s]];
    for (uint32_t p = 1; p < node.ports.size(); ++p) {
      const uint32_t far = node.ports[p].node;
      // A cable from a switch to itself carries nothing useful.
      if (far == kNone || !nodes[far].is_switch || far == switch_nodes[s]) continue;
      arcs.push_back({dense[far], kNone, static_cast<uint16_t>(p)});
      arc_from.push_back(s);
    }
    arc_begin.push_back(static_cast<uint32_t>(arcs.size()));
  }
  for (uint32_t a = 0; a < arcs.size(); ++a) {
    const Port& far = nodes[switch_nodes[arc_from[a]]].ports[arcs[a].port];
    for (uint32_t b = arc_begin[arcs[a].to]; b < arc_begin[arcs[a].to + 1]; ++b) {
      if (arcs[b].port == far.port) arcs[a].reverse = b;
    }
  }
  part_of.assign(num_switches(), kNone);
  for (uint32_t first = 0; first < num_switches(); ++first) {
    if (part_of[first] != kNone) continue;
    part_of[first] = first;
    for (std::vector<uint32_t> queue{first}; !queue.empty();) {
      const uint32_t s = queue.back();
      queue.pop_back();
      for (uint32_t a = arc_begin[s]; a < arc_begin[s + 1]; ++a) {
        if (part_of[arcs[a].to] != kNone) continue;
        part_of[arcs[a].to] = first;
        queue.push_back(arcs[a].to);
      }
    }
  }
  for (const bool want_switch : {false, true}) {
    for (uint32_t n = 0; n < nodes.size(); ++n) {
      const Node& node = nodes[n];
      if (node.is_switch != want_switch) continue;
      const uint32_t first = static_cast<uint32_t>(endpoints.size());
      if (want_switch) {
        endpoints.push_back({n, 0, dense[n], 0, node.guid});
      }
      for (uint32_t p = 1; p < node.ports.size() && !want_switch; ++p) {
        const Port& far = node.ports[p];
        if (far.node == kNone || !nodes[far.node].is_switch) continue;
        const uint64_t guid = node.port_guids[p] ? node.port_guids[p] : node.guid + p;
        endpoints.push_back({n, static_cast<uint16_t>(p), dense[far.node], far.port, guid});
      }
      for (uint32_t e = first; e < endpoints.size(); ++e) {
        const auto [at, fresh] = by_guid_.emplace(endpoints[e].guid, e);
        if (fresh) continue;
        return {Code::bad_argument, node.id + ": duplicate GUID: a port of " +
                                        nodes[endpoints[at->second].node].id + " has it too"};
      }
      if (first < endpoints.size()) {
        by_name_.emplace(node.id, first);
        // Ids are unique and come first; a description that several nodes share names none.
        for (const std::string& name : {node.description, first_word(node.description)}) {
          if (name == node.id || ids.count(name)) continue;
          const auto [at, fresh] = by_name_.emplace(name, first);
          if (!fresh && at->second != first) at->second = kNone;
        }
      }
    }
    if (!want_switch) num_hosts = static_cast<uint32_t>(endpoints.size());
  }
  return Code::ok;
}

uint32_t Topology::find_guid(uint64_t guid) const {
  const auto found = by_guid_.find(guid);
  return found == by_guid_.end() ? kNone : found->second;
}

uint32_t Topology::find_name(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? kNone : found->second;
}

}  // namespace weft::mcast
