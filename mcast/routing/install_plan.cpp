#include "mcast/routing/install_plan.hpp"

#include <cstdio>
#include <set>
#include <tuple>

namespace weft::mcast {

namespace {

std::string hex(uint64_t guid) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(guid));
  return text;
}

uint32_t positions(const Topology& topology, uint32_t node) {
  return static_cast<uint32_t>((topology.nodes[node].ports.size() + kBlockPorts - 1) / kBlockPorts);
}

const Rows& rows_at(const std::map<uint32_t, Rows>& all, uint32_t node) {
  static const Rows kNothing;
  const auto found = all.find(node);
  return found == all.end() ? kNothing : found->second;
}

PortSet ports_at(const Rows& rows, uint32_t entry) {
  const auto found = rows.find(entry);
  return found == rows.end() ? PortSet() : found->second;
}

void put(uint32_t entry, const PortSet& ports, const BlockPlace& place, Block* block) {
  uint16_t mask = 0;
  for (uint32_t p = 0; p < kBlockPorts; ++p) {
    if (ports[place.position * kBlockPorts + p]) mask |= static_cast<uint16_t>(1u << p);
  }
  (*block)[entry % kBlockEntries] = mask;
}

}  // namespace

Status rows_of(const Topology& topology, const Tables& tables, uint32_t first_entry,
               std::map<uint32_t, Rows>* rows) {
  rows->clear();
  std::map<uint64_t, uint32_t> node_of;
  for (const uint32_t n : topology.switch_nodes) node_of[topology.nodes[n].guid] = n;
  for (const auto& [guid, entries] : tables) {
    if (entries.empty()) continue;
    const auto node = node_of.find(guid);
    if (node == node_of.end()) {
      return {Code::bad_argument, "the fabric has no switch " + hex(guid) + ", the tables have"};
    }
    const size_t num_ports = topology.nodes[node->second].ports.size();
    for (const auto& [entry, ports] : entries) {
      if (uint64_t{entry} + first_entry > kLastMlid - kFirstMlid) {
        return {Code::bad_argument, "more entries than there are MLIDs to number them"};
      }
      PortSet& set = (*rows)[node->second][entry + first_entry];
      for (const uint16_t port : ports) {
        if (port >= num_ports) {
          return {Code::bad_argument, "switch " + hex(guid) + " has no port " +
                                          std::to_string(port) + ", the tables have"};
        }
        set.set(port);
      }
    }
  }
  return Code::ok;
}

std::vector<BlockPlace> places_of(const Topology& topology, const std::map<uint32_t, Rows>& wanted,
                                  const std::map<uint32_t, Rows>& previous) {
  std::set<BlockPlace> places;
  for (const auto* all : {&wanted, &previous}) {
    for (const auto& [node, rows] : *all) {
      for (const auto& [entry, ports] : rows) {
        for (uint32_t p = 0; p < positions(topology, node); ++p) {
          places.insert({node, entry / kBlockEntries, p});
        }
      }
    }
  }
  return {places.begin(), places.end()};
}

InstallPlan plan_install(const std::map<uint32_t, Rows>& wanted,
                         const std::map<uint32_t, Rows>& previous, const Blocks& now) {
  std::map<uint32_t, Rows> current;
  for (const auto& [place, block] : now) {
    Rows& rows = current[place.node];
    for (uint32_t e = 0; e < kBlockEntries; ++e) {
      PortSet& ports = rows[place.block * kBlockEntries + e];
      for (uint32_t p = 0; p < kBlockPorts; ++p) {
        if (block[e] >> p & 1) ports.set(place.position * kBlockPorts + p);
      }
    }
  }
  InstallPlan plan;
  for (const auto& [node, rows] : current) {
    for (const auto& [entry, from] : rows) {
      const PortSet to = ports_at(rows_at(wanted, node), entry);
      const PortSet before = ports_at(rows_at(previous, node), entry);
      if (from == to) continue;
      const bool ours = from.none() || from == before;
      // No tree uses this entry, so one that others have changed since is kept.
      if (to.none() && !ours) {
        if (before.any()) plan.kept.push_back({node, entry, from, to, true});
        continue;
      }
      plan.changes.push_back({node, entry, from, to, !ours});
      plan.num_foreign += !ours;
    }
  }
  for (const EntryChange& change : plan.changes) {
    const uint32_t number = change.entry / kBlockEntries;
    for (auto at = now.lower_bound({change.node, number, 0});
         at != now.end() && at->first.node == change.node && at->first.block == number; ++at) {
      plan.changed[at->first] |= 1u << change.entry % kBlockEntries;
      put(change.entry, change.to, at->first,
          &plan.final.try_emplace(at->first, at->second).first->second);
      put(change.entry, PortSet(), at->first,
          &plan.cleared.try_emplace(at->first, at->second).first->second);
    }
  }
  std::erase_if(plan.cleared, [&](const auto& item) { return item.second == now.at(item.first); });
  std::erase_if(plan.final, [&](const auto& item) {
    const auto cleared = plan.cleared.find(item.first);
    return item.second == (cleared == plan.cleared.end() ? now.at(item.first) : cleared->second);
  });
  return plan;
}

std::string text_of(const PortSet& ports) {
  std::string text;
  for (size_t p = 0; p < ports.size(); ++p) {
    if (!ports[p]) continue;
    if (!text.empty()) text += ' ';
    text += std::to_string(p);
  }
  return text.empty() ? "empty" : text;
}

std::vector<std::string> fabric_differences(const Topology& expected, const Topology& found,
                                            size_t limit) {
  std::vector<std::string> lines;
  size_t count = 0;
  const auto report = [&](const std::string& line) {
    if (++count <= limit) lines.push_back(line);
  };
  const auto by_guid = [](const Topology& topology) {
    std::map<uint64_t, uint32_t> nodes;
    for (uint32_t n = 0; n < topology.nodes.size(); ++n) {
      const auto& ports = topology.nodes[n].ports;
      bool connected = topology.nodes.size() == 1;
      for (const Port& port : ports) connected |= port.node != kNone;
      // Discovery cannot find a switch without cables.
      if (connected) nodes[topology.nodes[n].guid] = n;
    }
    return nodes;
  };
  const auto name = [](const Node& node) {
    return (node.is_switch   ? "switch "
            : node.is_router ? "router "
                             : "host ") +
           hex(node.guid) + " (" + node.description + ")";
  };
  const auto end = [&](const Topology& topology, const Port& port) {
    if (port.node == kNone) return std::string("nothing");
    return "port " + std::to_string(port.port) + " of " + name(topology.nodes[port.node]);
  };
  const std::map<uint64_t, uint32_t> theirs = by_guid(found), ours = by_guid(expected);
  for (const auto& [guid, n] : ours) {
    const Node& node = expected.nodes[n];
    const auto at = theirs.find(guid);
    if (at == theirs.end()) {
      report(name(node) + " is gone");
      continue;
    }
    const Node& other = found.nodes[at->second];
    if (other.is_switch != node.is_switch || other.ports.size() != node.ports.size()) {
      report(name(node) + " has another kind or number of ports");
      continue;
    }
    for (size_t p = 1; p < node.ports.size(); ++p) {
      const Port& want = node.ports[p];
      const Port& have = other.ports[p];
      const bool both = want.node != kNone && have.node != kNone;
      if (both ? expected.nodes[want.node].guid == found.nodes[have.node].guid &&
                     want.port == have.port
               : want.node == have.node) {
        continue;
      }
      report(name(node) + " port " + std::to_string(p) + " leads to " + end(found, have) +
             ", not " + end(expected, want));
    }
  }
  for (const auto& [guid, n] : theirs) {
    if (!ours.count(guid)) report(name(found.nodes[n]) + " is new");
  }
  if (count > limit) lines.push_back("and " + std::to_string(count - limit) + " more");
  return lines;
}

}  // namespace weft::mcast
