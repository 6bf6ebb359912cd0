// A fabric as text: what ibnetdiscover prints, and ibsim's net files.
//
// Ports may name nodes that come later, so cables are resolved when the whole text has been read;
// each keeps its line for messages. Unknown lines outside a node are skipped, as saved terminal
// output begins with prompts; inside a node they are errors, as they may be a port that was cut
// off.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <istream>
#include <ostream>
#include <unordered_set>

#include "mcast/routing/text_cursor.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

constexpr uint64_t kMaxPorts = 254;
constexpr int kMaxIncludes = 8;  // files within files

class Reader {
 public:
  explicit Reader(Topology* topology) : topology_(*topology) {}

  Status file(std::istream& in, const std::string& name) {
    current_ = kNone;
    std::string line;
    where_ = {name, 0};
    for (Status status; std::getline(in, line);) {
      ++where_.line;
      if (in.eof()) return bad("cut off: no end of line");
      if (where_.line == 1 && line.rfind("\xef\xbb\xbf", 0) == 0) line.erase(0, 3);
      if (where_.line == 1 && (line.rfind("\xff\xfe", 0) == 0 || line.rfind("\xfe\xff", 0) == 0))
        return bad("UTF-16: save it as UTF-8");
      const TextPosition here = where_;
      status = one_line(line);
      if (!status.ok()) return status;
      where_ = here;  // an include has changed it
    }
    current_ = kNone;
    return Code::ok;
  }

  // Joins the ends of the cables.
  Status finish() {
    for (const Cable& cable : cables_) {
      where_ = cable.position;
      const auto peer = by_id_.find(cable.peer);
      if (peer == by_id_.end()) return bad("unknown node " + cable.peer);
      const size_t num_ports = topology_.nodes[peer->second].ports.size() - 1;
      if (cable.peer_port == 0 || cable.peer_port > num_ports) {
        return bad("port " + std::to_string(cable.peer_port) + " of " + cable.peer +
                   ", which has " + std::to_string(num_ports));
      }
      Port& here = topology_.nodes[cable.node].ports[cable.port];
      if (here.node != kNone) return bad("port " + std::to_string(cable.port) + " again");
      here = {peer->second, static_cast<uint16_t>(cable.peer_port)};
    }
    for (const Cable& cable : cables_) {
      where_ = cable.position;
      const Port& here = topology_.nodes[cable.node].ports[cable.port];
      const Port& back = topology_.nodes[here.node].ports[here.port];
      if (back.node != cable.node || back.port != cable.port) {
        return bad("the far end " + cable.peer + "[" + std::to_string(cable.peer_port) +
                   "] says otherwise");
      }
    }
    if (topology_.nodes.empty()) return bad("no node in the file");
    return Code::ok;
  }

  Status bad(const std::string& why) const {
    return {Code::corrupt, where_.file + ":" + std::to_string(where_.line) + ": " + why};
  }

 private:
  struct TextPosition {
    std::string file;
    int line = 0;
  };
  struct Cable {
    uint32_t node;
    uint64_t port;
    std::string peer;
    uint64_t peer_port;
    TextPosition position;
  };
  enum Kind { kSwitch, kCa, kRouter };

  Status one_line(const std::string& line) {
    TextCursor c(line);
    if (line.find('\0') != std::string::npos) return bad("a zero byte: this is no text");
    c.skip_blanks();
    if (c.at_end()) {
      current_ = kNone;
      return Code::ok;
    }
    if (c.next() == '#') return Code::ok;
    if (c.next() == '[') return port(c);
    if (c.next() == '@' || c.take("module")) {
      return bad("ibsim's aliases and modules are not understood: write the nodes out");
    }
    for (const auto& [word, kind] : {std::pair{"Switch", kSwitch}, std::pair{"Ca", kCa},
                                     std::pair{"Hca", kCa}, std::pair{"Rt", kRouter}}) {
      TextCursor rest = c;
      if (rest.take(word) && rest.at_blank()) return node(rest, kind);
    }
    for (const auto& [word, kind] : {std::pair{"switchguid", kSwitch}, std::pair{"caguid", kCa},
                                     std::pair{"hcaguid", kCa}, std::pair{"rtguid", kRouter}}) {
      if (c.take(word)) return guid(c, kind);
    }
    for (const char* word : {"vendid=", "devid=", "sysimgguid=", "chassisguid=", "width=", "speed=",
                             "extspeed=", "pdebug="}) {
      if (!c.take(word)) continue;
      current_ = kNone;
      return Code::ok;
    }
    TextCursor rest = c;
    if (rest.take("include") && (rest.at_blank() || rest.next() == '"')) return include(rest);
    if (c.take("do") && c.at_blank()) return command(c);
    if (current_ != kNone) return bad("neither a port nor a blank line");
    return Code::ok;
  }

  // "switchguid=0x2c9(2c9)"; ibsim also has "+5" for that much above the last one given so.
  Status guid(TextCursor c, Kind kind) {
    current_ = kNone;
    c.take('s');  // ibsim's plural
    const bool relative = c.take('+');
    uint64_t value = 0, port_guid = 0;
    if (!relative && !c.take('=')) return bad("expected = and a GUID");
    if (!c.take_number(16, &value)) return bad("expected a GUID of at most 16 digits");
    c.take_in('(', ')', 16, &port_guid);
    if (!c.at_end() && !c.at_blank()) return bad("more after the GUID");
    if (relative) {
      value += guid_base_[kind];
    } else {
      guid_base_[kind] = value;
    }
    next_guid_[kind] = value;
    guid_given_[kind] = true;
    return Code::ok;
  }

  Status node(TextCursor c, Kind kind) {
    Node node;
    uint64_t ports = 0;
    c.skip_blanks();
    const bool counted = c.take_number(10, &ports);
    c.skip_blanks();
    if (!counted || !c.take_quoted(&node.id) || node.id.empty()) {
      return bad("expected: kind of node, ports, \"id\"");
    }
    if (ports == 0 || ports > kMaxPorts) return bad("a node has 1 to 254 ports");
    c.skip_blanks();
    if (c.take('#')) {
      c.skip_blanks();
      if (!c.take_quoted(&node.description)) {
        node.description = c.rest();
        const auto unfit = [](unsigned char ch) { return ch == '"' || ch < ' '; };
        node.description.erase(
            std::remove_if(node.description.begin(), node.description.end(), unfit),
            node.description.end());
      }
    }
    if (node.description.empty()) node.description = node.id;
    node.is_switch = kind == kSwitch;
    node.is_router = kind == kRouter;
    // ibsim counts on from the last GUID given; without any, ibnetdiscover's id holds it.
    TextCursor from_id(node.id);
    const bool has_prefix = from_id.take("S-") || from_id.take("H-") || from_id.take("R-");
    if (guid_given_[kind] || !has_prefix || !from_id.take_number(16, &node.guid) ||
        !from_id.at_end()) {
      node.guid = next_guid_[kind];
      next_guid_[kind] += kind == kSwitch ? 1 : ports + 1;
    }
    node.ports.resize(ports + 1);
    node.port_guids.resize(ports + 1);
    current_ = static_cast<uint32_t>(topology_.nodes.size());
    if (!by_id_.emplace(node.id, current_).second) return bad("node " + node.id + " again");
    if (!guids_.emplace(node.guid, current_).second) {
      return bad("duplicate GUID: " + topology_.nodes[guids_[node.guid]].id + " has it too");
    }
    topology_.nodes.push_back(std::move(node));
    return Code::ok;
  }

  Status port(TextCursor c) {
    uint64_t number = 0;
    const bool numbered = c.take_in('[', ']', 10, &number);
    if (current_ == kNone && !numbered) return Code::ok;  // a prompt: [admin@head ~]$
    if (current_ == kNone) return bad("a port outside any node");
    if (!numbered) return bad("expected [port]");
    Node& node = topology_.nodes[current_];
    Cable cable{current_, number, {}, 1, where_};
    if (cable.port == 0 || cable.port >= node.ports.size()) {
      return bad("port " + std::to_string(cable.port) + " of " + node.id + ", which has " +
                 std::to_string(node.ports.size() - 1));
    }
    uint64_t port_guid = 0;
    // Some tools print the port's number where its GUID belongs.
    if (c.take_in('(', ')', 16, &port_guid) && !node.is_switch && port_guid > kMaxPorts) {
      node.port_guids[cable.port] = port_guid;
    }
    c.skip_blanks();
    if (c.at_end() || c.next() == '#') return Code::ok;  // unconnected
    if (!c.take_quoted(&cable.peer)) return bad("expected the peer's \"id\"");
    c.skip_blanks();
    // ibsim: without a port it is the first. What follows is width, speed and remarks.
    if (c.next() == '[' && !c.take_in('[', ']', 10, &cable.peer_port)) {
      return bad("expected the peer's [port]");
    }
    c.take_in('(', ')', 16, &port_guid);
    if (!c.at_end() && !c.at_blank() && c.next() != '#') return bad("more after the peer's port");
    const uint64_t own_guid = node.port_guids[cable.port];
    if (own_guid != 0 && !port_guids_.insert(own_guid).second) return bad("duplicate port GUID");
    cables_.push_back(std::move(cable));
    return Code::ok;
  }

  Status include(TextCursor c) {
    std::string path;
    c.skip_blanks();
    if (!c.take_quoted(&path)) return bad("expected: include \"file\"");
    std::filesystem::path full(path);
    if (full.is_relative()) full = std::filesystem::path(where_.file).parent_path() / full;
    if (include_depth_ == kMaxIncludes) return bad("files include each other too deep");
    std::error_code error;
    std::ifstream in;
    // Only regular files: a device or a pipe might never end.
    if (std::filesystem::is_regular_file(full, error)) in.open(full);
    if (!in.is_open()) return bad(full.string() + ": cannot be read");
    ++include_depth_;
    const Status status = file(in, full.string());
    --include_depth_;
    return status;
  }

  // ibsim's console commands: those that leave the fabric as it is are passed over.
  Status command(TextCursor c) {
    current_ = kNone;
    c.skip_blanks();
    const std::string text = c.rest();
    std::string word = text.substr(0, text.find_first_of(" \t\r"));
    for (char& ch : word) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
    for (const char* harmless : {"dump", "route", "error", "baselid", "start", "verbose", "wait",
                                 "attached", "x", "help", "?", "performanceset"}) {
      if (word == harmless) return Code::ok;
    }
    if (word.empty() || word[0] == '#') return Code::ok;
    return bad("do " + word + " changes the fabric: write the fabric as it is afterwards");
  }

  Topology& topology_;
  TextPosition where_;
  uint32_t current_ = kNone;  // the node that ports belong to
  int include_depth_ = 0;
  std::unordered_map<std::string, uint32_t> by_id_;
  std::unordered_map<uint64_t, uint32_t> guids_;
  std::unordered_set<uint64_t> port_guids_;
  std::vector<Cable> cables_;
  bool guid_given_[3] = {};
  uint64_t guid_base_[3] = {0x200000, 0x100000, 0x300000};
  uint64_t next_guid_[3] = {0x200000, 0x100000, 0x300000};
};

}  // namespace

Status read_topology(std::istream& in, const std::string& name, Topology* topology) {
  *topology = Topology();
  Reader reader(topology);
  Status status = reader.file(in, name);
  if (status.ok()) status = reader.finish();
  if (!status.ok()) return status;
  status = topology->finish();
  return status.ok() ? status : Status(Code::corrupt, name + ": " + status.text());
}

void write_topology(const Topology& topology, std::ostream& out) {
  char text[256];
  for (const Node& node : topology.nodes) {
    const char* kind = node.is_switch ? "Switch" : node.is_router ? "Rt" : "Ca";
    const char* guid = node.is_switch ? "switch" : node.is_router ? "rt" : "ca";
    std::snprintf(text, sizeof text, "%sguid=0x%llx\n", guid,
                  static_cast<unsigned long long>(node.guid));
    out << text << kind << '\t' << node.ports.size() - 1 << " \"" << node.id << "\"\t\t# \""
        << node.description << "\"\n";
    for (uint32_t p = 1; p < node.ports.size(); ++p) {
      const Port& far = node.ports[p];
      if (far.node == kNone) continue;
      out << '[' << p << ']';
      if (!node.is_switch) {
        const uint64_t port_guid = node.port_guids[p] ? node.port_guids[p] : node.guid + p;
        std::snprintf(text, sizeof text, "(%llx) ", static_cast<unsigned long long>(port_guid));
        out << text;
      }
      out << "\t\"" << topology.nodes[far.node].id << "\"[" << far.port << "]\n";
    }
    out << '\n';
  }
}

}  // namespace weft::mcast
