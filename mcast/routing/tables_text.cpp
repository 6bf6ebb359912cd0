// Forwarding tables as text: OpenSM's opensm.mcfdbs, and what dump_fts -M and ibroute -M print.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <istream>
#include <map>
#include <ostream>

#include "mcast/routing/opensm/rules.hpp"
#include "mcast/routing/text_cursor.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

constexpr size_t kFirstColumn = 12;  // of dump_fts: port p is marked in column 12 + 2p

std::map<uint32_t, std::vector<uint16_t>> sorted_entries(const Tables& tables, uint64_t guid) {
  const auto found = tables.find(guid);
  if (found == tables.end()) return {};
  return {found->second.begin(), found->second.end()};
}

// Reads either form line by line into tables, which it checks to be free of contradictions.
class TableReader {
 public:
  TableReader(const std::string& name, Tables* tables) : name_(name), tables_(*tables) {
    tables_.clear();
  }

  Status read(std::istream& in) {
    std::string line;
    while (std::getline(in, line)) {
      ++number_;
      // Both forms end every line: the last one looks like one that was cut off.
      if (in.eof()) return bad("the last line is cut off: no end of line");
      const Status status = one_line(line);
      if (!status.ok()) return status;
    }
    if (in_dump_) return bad("cut off: no line says how many entries there are");
    for (auto& [guid, entries] : tables_) {
      for (auto& [entry, ports] : entries) std::sort(ports.begin(), ports.end());
    }
    return Code::ok;
  }

 private:
  Status bad(const std::string& why) const {
    return {Code::corrupt, name_ + ":" + std::to_string(number_) + ": " + why};
  }

  Status one_line(const std::string& line) {
    TextCursor c(line);
    if (c.take("Multicast mlids [")) return dump_header(line);
    if (c.take("Switch multicast mlid capability")) return Code::ok;  // ibroute on request
    if (in_dump_) return dump_line(line);
    if (c.at_end() || c.take("LID ")) return Code::ok;
    if (c.take("Switch 0x")) {
      uint64_t guid = 0;
      if (!c.take_number(16, &guid) || !c.at_end()) return bad("expected a switch's GUID");
      return start_switch(guid);
    }
    return mcfdbs_entry(c);
  }

  Status start_switch(uint64_t guid) {
    const auto [at, fresh] = tables_.try_emplace(guid);
    if (!fresh) return bad("the switch again");
    entries_ = &at->second;
    return Code::ok;
  }

  Status start_entry(uint64_t mlid, std::vector<uint16_t>** ports) {
    if (mlid < kFirstMlid || mlid > kLastMlid) return bad("expected an MLID of 0xc000 to 0xfffe");
    if (entries_ == nullptr) return bad("an entry outside any switch");
    const auto [at, fresh] = entries_->try_emplace(static_cast<uint32_t>(mlid - kFirstMlid));
    if (!fresh) return bad("the entry again");
    *ports = &at->second;
    return Code::ok;
  }

  Status mcfdbs_entry(TextCursor c) {
    uint64_t mlid = 0;
    if (!c.take("0x") || !c.take_number(16, &mlid) || !c.take(" :")) {
      return bad("expected MLID : ports");
    }
    std::vector<uint16_t>* ports = nullptr;
    const Status status = start_entry(mlid, &ports);
    if (!status.ok()) return status;
    for (c.skip_blanks(); !c.at_end(); c.skip_blanks()) {
      uint64_t port = 0;
      if (!c.take("0x") || !c.take_number(16, &port) || port > 254) return bad("bad port number");
      if (!c.at_end() && !c.at_blank()) return bad("bad port number");
      if (std::find(ports->begin(), ports->end(), port) != ports->end()) {
        return bad("port " + std::to_string(port) + " again");
      }
      ports->push_back(static_cast<uint16_t>(port));
    }
    return Code::ok;
  }

  // "Multicast mlids [0xc000-0xc3ff] of switch ROUTE guid 0x2c9 (description):", where ROUTE is
  // "Lid 7", "DR path slid 0; dlid 0; 0,3,4", or nothing.
  Status dump_header(const std::string& line) {
    if (in_dump_) return bad("cut off: no line says how many entries the last switch has");
    const std::string before = "] of switch", mark = " guid 0x";
    const size_t route = line.find(before);
    const size_t at = route == std::string::npos ? route : line.find(mark, route + before.size());
    uint64_t guid = 0;
    if (at == std::string::npos) return bad("expected the switch's GUID");
    const std::string tail = line.substr(at + mark.size());
    TextCursor c(tail);
    if (!c.take_number(16, &guid) || !c.take(" (") || tail.size() < 2 ||
        tail.compare(tail.size() - 2, 2, "):") != 0) {
      return bad("expected the switch's GUID and (description):");
    }
    in_dump_ = true;
    return start_switch(guid);
  }

  Status dump_line(const std::string& line) {
    TextCursor c(line);
    uint64_t mlid = 0;
    if (c.take("0x")) {
      if (!c.take_number(16, &mlid)) return bad("expected an MLID");
      std::vector<uint16_t>* ports = nullptr;
      const Status status = start_entry(mlid, &ports);
      if (!status.ok()) return status;
      for (size_t column = 6; column < line.size(); ++column) {
        if (line[column] == ' ') continue;
        const size_t port = column < kFirstColumn ? 255 : (column - kFirstColumn) / 2;
        if (line[column] != 'x' || column % 2 != 0 || port > 254) {
          return bad("expected an x under a port's number");
        }
        ports->push_back(static_cast<uint16_t>(port));
      }
      return Code::ok;
    }
    // The count ends a switch; skip blank lines and the two or three of the heading.
    uint64_t count = 0;
    if (c.take_number(10, &count)) {
      if (!c.take(" valid mlids dumped")) return bad("expected how many valid mlids were dumped");
      if (count != entries_->size()) {
        return bad(std::to_string(count) + " entries announced, " +
                   std::to_string(entries_->size()) + " there");
      }
      in_dump_ = false;
      entries_ = nullptr;
      return Code::ok;
    }
    c.skip_blanks();
    if (c.at_end() || c.take("Ports:") || c.take("MLid") || c.take_number(10, &count)) {
      return Code::ok;
    }
    return bad("expected an MLID and its ports");
  }

  std::string name_;
  Tables& tables_;
  int number_ = 0;
  std::unordered_map<uint32_t, std::vector<uint16_t>>* entries_ = nullptr;  // of this switch
  bool in_dump_ = false;  // between a header of dump_fts and its count
};

}  // namespace

void write_mcfdbs(const Topology& topology, const Tables& tables, std::ostream& out) {
  char text[64];
  for (const uint32_t s : opensm_switch_order(topology)) {
    const uint64_t guid = topology.nodes[topology.switch_nodes[s]].guid;
    const auto entries = sorted_entries(tables, guid);
    if (entries.empty()) continue;
    std::snprintf(text, sizeof text, "\nSwitch 0x%016" PRIx64 "\n", guid);
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
      out << std::string(kFirstColumn, ' ');
      for (size_t p = 0; p < num_ports; ++p) {
        out << (p % 10 == 0 ? std::to_string(p / 10 % 10) : " ") << ' ';
      }
      out << '\n';
    }
    out << "     Ports: ";
    for (size_t p = 0; p < num_ports; ++p) out << p % 10 << ' ';
    out << "\n MLid\n";
    for (const auto& [color, ports] : entries) {
      std::string marks(kFirstColumn + 2 * num_ports, ' ');
      for (const uint16_t port : ports) marks[kFirstColumn + 2 * port] = 'x';
      std::snprintf(text, sizeof text, "0x%04x", kFirstMlid + color);
      marks.replace(0, 6, text);
      out << marks << '\n';
    }
    out << entries.size() << " valid mlids dumped \n";
  }
}

Status read_tables(std::istream& in, const std::string& name, Tables* tables) {
  return TableReader(name, tables).read(in);
}

}  // namespace weft::mcast
