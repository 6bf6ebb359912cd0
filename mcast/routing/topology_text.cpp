// ibnetdiscover's text, read and written. Ports may name nodes that come later, so links are
// resolved when the whole file has been read; each keeps its line for messages.
#include <cstdio>
#include <cstring>
#include <istream>
#include <ostream>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

// A cursor over one line; every take_* leaves it unmoved on failure.
struct Cursor {
  const char* at;
  void spaces() {
    while (*at == ' ' || *at == '\t') ++at;
  }
  bool take(char c) { return *at == c ? (++at, true) : false; }
  bool number(int base, uint64_t* value) {
    int digits = 0;
    uint64_t result = 0;
    const char* p = at;
    if (base == 16 && p[0] == '0' && p[1] == 'x') p += 2;
    for (;; ++p, ++digits) {
      int d = -1;
      if (*p >= '0' && *p <= '9') d = *p - '0';
      if (base == 16 && *p >= 'a' && *p <= 'f') d = *p - 'a' + 10;
      if (base == 16 && *p >= 'A' && *p <= 'F') d = *p - 'A' + 10;
      if (d < 0 || digits > 18) break;
      result = result * base + d;
    }
    if (digits == 0) return false;
    at = p;
    *value = result;
    return true;
  }
  bool quoted(std::string* text) {
    if (*at != '"') return false;
    const char* end = std::strchr(at + 1, '"');
    if (end == nullptr) return false;
    text->assign(at + 1, end);
    at = end + 1;
    return true;
  }
  bool parenthesised(uint64_t* value) {
    Cursor copy{at};
    if (!copy.take('(') || !copy.number(16, value) || !copy.take(')')) return false;
    at = copy.at;
    return true;
  }
};

struct Pending {
  uint32_t node;
  uint64_t port;
  std::string peer;
  uint64_t peer_port;
  int line;
};

constexpr uint64_t kMaxPorts = 254;

}  // namespace

Status read_topology(std::istream& in, const std::string& name, Topology* topology) {
  *topology = Topology();
  std::unordered_map<std::string, uint32_t> by_id;
  std::vector<Pending> links;
  uint64_t guid = 0;
  bool have_guid = false;
  uint32_t current = kNone;
  int number = 0;
  const auto bad = [&](int line, const std::string& why) {
    return Status(Code::corrupt, name + ":" + std::to_string(line) + ": " + why);
  };
  std::string line;
  while (std::getline(in, line)) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number == 1 && line.rfind("\xef\xbb\xbf", 0) == 0) line.erase(0, 3);
    Cursor c{line.c_str()};
    c.spaces();
    if (*c.at == 0) {
      current = kNone;
      continue;
    }
    if (*c.at == '#') continue;
    if (std::strncmp(c.at, "switchguid=", 11) == 0 || std::strncmp(c.at, "caguid=", 7) == 0 ||
        std::strncmp(c.at, "rtguid=", 7) == 0) {
      c.at = std::strchr(c.at, '=') + 1;
      have_guid = c.number(16, &guid);
      if (!have_guid) return bad(number, "a GUID is expected after '='");
      continue;
    }
    const bool is_switch = std::strncmp(c.at, "Switch", 6) == 0;
    const bool is_router = std::strncmp(c.at, "Rt", 2) == 0;
    const bool is_ca = std::strncmp(c.at, "Ca", 2) == 0 || std::strncmp(c.at, "Hca", 3) == 0;
    if (is_switch || is_router || is_ca) {
      while (*c.at != 0 && *c.at != ' ' && *c.at != '\t') ++c.at;
      c.spaces();
      Node node;
      uint64_t ports = 0;
      const bool counted = c.number(10, &ports);
      c.spaces();
      if (!counted || !c.quoted(&node.id)) return bad(number, "expected: kind ports \"id\"");
      if (ports == 0 || ports > kMaxPorts) return bad(number, "a node has 1 to 254 ports");
      c.spaces();
      if (c.take('#')) {
        c.spaces();
        if (!c.quoted(&node.description)) node.description = c.at;
      }
      if (node.description.empty()) node.description = node.id;
      node.is_switch = is_switch;
      node.is_router = is_router;
      // Without a GUID line, the id holds it; ibsim's files may have neither.
      const size_t dash = node.id.find('-');
      Cursor from_id{node.id.c_str() + (dash == std::string::npos ? 0 : dash + 1)};
      if (have_guid) {
        node.guid = guid;
      } else if (!from_id.number(16, &node.guid) || *from_id.at != 0) {
        node.guid = 0x100000 + 0x100 * topology->nodes.size();
      }
      have_guid = false;
      node.ports.resize(ports + 1);
      node.port_guids.resize(ports + 1);
      current = static_cast<uint32_t>(topology->nodes.size());
      if (!by_id.emplace(node.id, current).second) return bad(number, "duplicate " + node.id);
      topology->nodes.push_back(std::move(node));
      continue;
    }
    if (*c.at == '[') {
      if (current == kNone) return bad(number, "a port outside any node");
      Node& node = topology->nodes[current];
      Pending link{current, 0, {}, 0, number};
      if (!c.take('[') || !c.number(10, &link.port) || !c.take(']')) {
        return bad(number, "expected [port]");
      }
      if (link.port == 0 || link.port >= node.ports.size()) {
        return bad(number, "port " + std::to_string(link.port) + " of a node of " +
                               std::to_string(node.ports.size() - 1));
      }
      uint64_t port_guid = 0;
      if (c.parenthesised(&port_guid) && !node.is_switch && port_guid > kMaxPorts) {
        node.port_guids[link.port] = port_guid;
      }
      c.spaces();
      if (*c.at == 0 || *c.at == '#') continue;  // unconnected
      if (!c.quoted(&link.peer)) return bad(number, "expected the peer's \"id\"");
      if (!c.take('[') || !c.number(10, &link.peer_port) || !c.take(']')) {
        return bad(number, "expected the peer's [port]");
      }
      links.push_back(std::move(link));
      continue;
    }
    // vendid=, devid=, sysimgguid=, shell prompts: inside a node they would hide a cut-off port.
    if (current != kNone) return bad(number, "neither a port nor a blank line");
  }
  for (const Pending& link : links) {
    const auto peer = by_id.find(link.peer);
    if (peer == by_id.end()) return bad(link.line, "unknown node " + link.peer);
    if (link.peer_port == 0 || link.peer_port >= topology->nodes[peer->second].ports.size()) {
      return bad(link.line, link.peer + " has no port " + std::to_string(link.peer_port));
    }
    Port& here = topology->nodes[link.node].ports[link.port];
    if (here.node != kNone) return bad(link.line, "the port has been given before");
    here = {peer->second, static_cast<uint16_t>(link.peer_port)};
  }
  for (const Pending& link : links) {
    const Port& here = topology->nodes[link.node].ports[link.port];
    const Port& back = topology->nodes[here.node].ports[here.port];
    if (back.node != link.node || back.port != link.port) {
      return bad(link.line, "the far end " + link.peer + "[" + std::to_string(link.peer_port) +
                                "] says otherwise");
    }
  }
  if (topology->nodes.empty()) return bad(number, "no node in the file");
  const Status finished = topology->finish();
  if (!finished.ok()) return {Code::corrupt, name + ": " + finished.text()};
  return Code::ok;
}

void write_topology(const Topology& topology, std::ostream& out) {
  char text[256];
  for (const Node& node : topology.nodes) {
    const char* kind = node.is_switch ? "Switch" : node.is_router ? "Rt" : "Ca";
    std::snprintf(text, sizeof text, "%sguid=0x%llx\n", node.is_switch ? "switch" : "ca",
                  static_cast<unsigned long long>(node.guid));
    out << text << kind << '\t' << node.ports.size() - 1 << " \"" << node.id << "\"\t\t# \""
        << node.description << "\"\n";
    for (uint32_t p = 1; p < node.ports.size(); ++p) {
      const Port& far = node.ports[p];
      if (far.node == kNone) continue;
      out << '[' << p << ']';
      if (!node.is_switch) {
        const uint64_t guid = node.port_guids[p] ? node.port_guids[p] : node.guid + p;
        std::snprintf(text, sizeof text, "(%llx) ", static_cast<unsigned long long>(guid));
        out << text;
      }
      out << "\t\"" << topology.nodes[far.node].id << "\"[" << far.port << "]\n";
    }
    out << '\n';
  }
}

}  // namespace weft::mcast
