// From trees to forwarding tables, their text forms, and what trees cost.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <istream>
#include <map>
#include <ostream>
#include <set>

#include "routing/opensm_rules.hpp"
#include "routing/tree_building.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

constexpr uint32_t kFirstMlid = 0xc000;

std::map<uint32_t, std::vector<uint16_t>> sorted_entries(const Tables& tables, uint64_t guid) {
  const auto found = tables.find(guid);
  if (found == tables.end()) return {};
  return {found->second.begin(), found->second.end()};
}

}  // namespace

Tables make_tables(const Topology& topology, const std::vector<Tree>& trees) {
  Tables tables;
  const auto add = [&](uint32_t s, uint32_t color, uint16_t port) {
    tables[topology.nodes[topology.switch_nodes[s]].guid][color].push_back(port);
  };
  for (const Tree& tree : trees) {
    for (const uint32_t link : tree.links) {
      const Arc& arc = topology.arcs[link];
      add(topology.arc_from[link], tree.color, arc.port);
      add(arc.to, tree.color, topology.arcs[arc.reverse].port);
    }
    for (const uint32_t m : tree.members) {
      add(topology.endpoints[m].on_switch, tree.color, topology.endpoints[m].switch_port);
    }
  }
  for (auto& [guid, entries] : tables) {
    for (auto& [color, ports] : entries) std::sort(ports.begin(), ports.end());
  }
  return tables;
}

void write_mcfdbs(const Topology& topology, const Tables& tables, std::ostream& out) {
  char text[64];
  for (const uint32_t s : opensm_switch_order(topology)) {
    const uint32_t n = topology.switch_nodes[s];
    const auto entries = sorted_entries(tables, topology.nodes[n].guid);
    if (entries.empty()) continue;
    std::snprintf(text, sizeof text, "\nSwitch 0x%016" PRIx64 "\n", topology.nodes[n].guid);
    out << text << "LID    : Out Port(s)\n";
    for (const auto& [color, ports] : entries) {
      std::snprintf(text, sizeof text, "0x%04X :", kFirstMlid + color);
      out << text;
      for (const uint16_t port : ports) {
        std::snprintf(text, sizeof text, " 0x%03X ", port);
        out << text;
      }
      out << '\n';
    }
  }
}

void write_dump_fts(const Topology& topology, const Tables& tables, std::ostream& out) {
  char text[64];
  for (const uint32_t s : opensm_switch_order(topology)) {
    const Node& node = topology.nodes[topology.switch_nodes[s]];
    const auto entries = sorted_entries(tables, node.guid);
    std::snprintf(text, sizeof text, "0x%016" PRIx64, node.guid);
    out << "Multicast mlids [0xc000-0xffff] of switch guid " << text << " (" << node.description
        << "):\n";
    const size_t num_ports = node.ports.size();
    if (num_ports > 10) {
      out << "            ";
      for (size_t p = 0; p < num_ports; ++p) {
        out << (p % 10 == 0 && p > 0 ? std::to_string(p / 10 % 10) : " ") << ' ';
      }
      out << '\n';
    }
    out << "     Ports: ";
    for (size_t p = 0; p < num_ports; ++p) out << p % 10 << ' ';
    out << "\n MLid\n";
    for (const auto& [color, ports] : entries) {
      std::string marks(12 + 2 * num_ports, ' ');
      for (const uint16_t port : ports) marks[12 + 2 * port] = 'x';
      std::snprintf(text, sizeof text, "0x%04x", kFirstMlid + color);
      marks.replace(0, 6, text);
      out << marks << '\n';
    }
    out << entries.size() << " valid mlids dumped \n";
  }
}

Status read_mcfdbs(std::istream& in, const std::string& name, Tables* tables) {
  tables->clear();
  std::unordered_map<uint32_t, std::vector<uint16_t>>* entries = nullptr;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto bad = [&](const std::string& why) {
      return Status(Code::corrupt, name + ":" + std::to_string(number) + ": " + why);
    };
    if (line.empty() || line.rfind("LID ", 0) == 0) continue;
    char* end = nullptr;
    if (line.rfind("Switch 0x", 0) == 0) {
      const uint64_t guid = std::strtoull(line.c_str() + 7, &end, 16);
      if (*end != 0) return bad("expected a switch's GUID");
      const auto [at, fresh] = tables->try_emplace(guid);
      if (!fresh) return bad("the switch has been given before");
      entries = &at->second;
      continue;
    }
    const uint64_t mlid = std::strtoull(line.c_str(), &end, 16);
    if (line.rfind("0x", 0) != 0 || std::string(end).rfind(" :", 0) != 0 || mlid < kFirstMlid ||
        mlid > 0xffff) {
      return bad("expected MLID : ports");
    }
    if (entries == nullptr) return bad("an entry outside any switch");
    const auto [at, fresh] = entries->try_emplace(static_cast<uint32_t>(mlid - kFirstMlid));
    if (!fresh) return bad("the entry has been given before");
    for (const char* p = end + 2;;) {
      while (*p == ' ') ++p;
      if (*p == 0) break;
      const uint64_t port = std::strtoull(p, &end, 16);
      if (end == p || port > 254) return bad("bad port number");
      at->second.push_back(static_cast<uint16_t>(port));
      p = end;
    }
  }
  return Code::ok;
}

Figures measure(const Topology& topology, const std::vector<Tree>& trees) {
  Figures figures;
  std::vector<uint32_t> load(topology.arcs.size()), host_load(topology.endpoints.size());
  std::set<uint32_t> colors;
  uint64_t groups = 0;
  for (const Tree& tree : trees) {
    const uint32_t tfi = static_cast<uint32_t>(tree.groups.size());
    groups += tfi;
    colors.insert(tree.color);
    figures.max_tfi = std::max(figures.max_tfi, tfi);
    for (const uint32_t link : tree.links) load[cable_of(topology, link)] += tfi;
    for (const uint32_t m : tree.members) host_load[m] += tfi;
    // Height: hops from the root along the tree.
    std::map<uint32_t, std::vector<uint32_t>> at;
    for (const uint32_t link : tree.links) {
      at[topology.arc_from[link]].push_back(topology.arcs[link].to);
      at[topology.arcs[link].to].push_back(topology.arc_from[link]);
    }
    std::set<uint32_t> seen{tree.root};
    std::vector<uint32_t> level{tree.root};
    for (uint32_t height = 0; !level.empty(); ++height) {
      figures.max_height = std::max(figures.max_height, height);
      std::vector<uint32_t> next;
      for (const uint32_t s : level) {
        for (const uint32_t to : at[s]) {
          if (seen.insert(to).second) next.push_back(to);
        }
      }
      level = std::move(next);
    }
  }
  uint64_t sum = 0, cables = 0;
  for (uint32_t a = 0; a < load.size(); ++a) {
    if (cable_of(topology, a) != a) continue;
    figures.max_efi = std::max(figures.max_efi, load[a]);
    sum += load[a];
    ++cables;
  }
  for (const uint32_t l : host_load) figures.max_host_efi = std::max(figures.max_host_efi, l);
  figures.trees = static_cast<uint32_t>(trees.size());
  figures.colors = static_cast<uint32_t>(colors.size());
  figures.mean_efi = cables ? double(sum) / cables : 0;
  figures.mean_tfi = trees.empty() ? 0 : double(groups) / trees.size();
  return figures;
}

}  // namespace weft::mcast
