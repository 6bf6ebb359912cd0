// Verifies tables by forwarding packets, independently of the router: they share only Topology.
//
// A packet that enters a switch leaves by every port of its entry but the one it came in by. Along
// a tree every switch is entered once; a second visit is a loop or a second copy. Which switches
// and hosts a packet reaches is the same from every member once the first has shown a tree whose
// entries point both ways, so the others are followed only as far as their first switch: it must be
// one of the tree's and hold the sender's port.
#include <algorithm>
#include <cstdio>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

std::string hex(uint64_t guid) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(guid));
  return text;
}

}  // namespace

Status verify_tables(const Topology& topology, const std::vector<Group>& groups,
                     const std::vector<uint32_t>& entry_of, const Tables& tables,
                     uint32_t max_colors) {
  const auto wrong = [](const std::string& why) { return Status(Code::corrupt, why); };
  for (const auto& [guid, entries] : tables) {
    if (entries.size() > max_colors) {
      return wrong("switch " + hex(guid) + " uses " + std::to_string(entries.size()) +
                   " entries of " + std::to_string(max_colors));
    }
  }
  std::unordered_map<uint64_t, uint32_t> node_of;
  for (const uint32_t n : topology.switch_nodes) node_of[topology.nodes[n].guid] = n;
  for (const auto& [guid, entries] : tables) {
    if (!node_of.count(guid)) return wrong("the fabric has no switch " + hex(guid));
    for (const auto& [entry, ports] : entries) {
      for (const uint16_t port : ports) {
        if (port >= topology.nodes[node_of[guid]].ports.size()) {
          return wrong(topology.nodes[node_of[guid]].id + ": no port " + std::to_string(port));
        }
      }
    }
  }
  struct Packet {
    uint32_t node;
    uint16_t in_port;
  };
  std::vector<uint32_t> visited(topology.nodes.size(), 0);
  uint32_t now = 0;
  const auto forward = [&](uint32_t g, uint32_t group_entry) -> Status {
    ++now;
    const auto fault = [&](const std::string& why) {
      return wrong("group " + groups[g].id + ": " + why);
    };
    const auto ports_of = [&](uint32_t node) -> const std::vector<uint16_t>* {
      const auto table = tables.find(topology.nodes[node].guid);
      if (table == tables.end()) return nullptr;
      const auto entry = table->second.find(group_entry);
      return entry == table->second.end() ? nullptr : &entry->second;
    };
    std::unordered_map<uint64_t, uint32_t> copies;  // node << 16 | port -> packets arrived
    const Endpoint& sender = topology.endpoints[groups[g].members[0]];
    const uint32_t start = topology.switch_nodes[sender.on_switch];
    std::vector<Packet> queue{{start, sender.switch_port}};
    while (!queue.empty()) {
      const Packet packet = queue.back();
      queue.pop_back();
      const Node& node = topology.nodes[packet.node];
      if (visited[packet.node] == now) return fault("a packet reaches " + node.id + " twice");
      visited[packet.node] = now;
      const std::vector<uint16_t>* ports = ports_of(packet.node);
      if (ports == nullptr) return fault("a packet is lost at " + node.id + ", which has no entry");
      if (!std::binary_search(ports->begin(), ports->end(), packet.in_port)) {
        return fault("a packet enters another tree at " + node.id);
      }
      for (const uint16_t port : *ports) {
        if (port == packet.in_port) continue;
        if (port == 0) {
          ++copies[uint64_t{packet.node} << 16];
          continue;
        }
        const Port& far = node.ports[port];
        if (far.node == kNone) return fault(node.id + " sends to an unconnected port");
        if (topology.nodes[far.node].is_switch) {
          queue.push_back({far.node, far.port});
        } else {
          ++copies[uint64_t{far.node} << 16 | far.port];
        }
      }
    }
    for (size_t m = 0; m < groups[g].members.size(); ++m) {
      const Endpoint& member = topology.endpoints[groups[g].members[m]];
      const uint32_t at = topology.switch_nodes[member.on_switch];
      const std::vector<uint16_t>* ports = visited[at] == now ? ports_of(at) : nullptr;
      if (ports == nullptr ||
          !std::binary_search(ports->begin(), ports->end(), member.switch_port)) {
        return fault("a member's switch does not know it");
      }
      const uint32_t got = copies[uint64_t{member.node} << 16 | member.port];
      if (got != (m == 0 ? 0u : 1u)) {
        return fault("a member gets " + std::to_string(got) + " copies");
      }
    }
    return Code::ok;
  };
  for (uint32_t g = 0; g < groups.size(); ++g) {
    if (groups[g].members.size() < 2) continue;
    Status result(Code::corrupt, "group " + groups[g].id + ": no entry reaches its members");
    if (!entry_of.empty()) {
      if (entry_of[g] != kNone) result = forward(g, entry_of[g]);
    } else {
      // Tables alone do not say which entry a group uses: one that serves it must exist.
      const Endpoint& first = topology.endpoints[groups[g].members[0]];
      const auto table = tables.find(topology.nodes[topology.switch_nodes[first.on_switch]].guid);
      if (table != tables.end()) {
        for (const auto& [entry, ports] : table->second) {
          if (!std::binary_search(ports.begin(), ports.end(), first.switch_port)) continue;
          result = forward(g, entry);
          if (result.ok()) break;
        }
      }
    }
    if (!result.ok()) return result;
  }
  return Code::ok;
}

}  // namespace weft::mcast
