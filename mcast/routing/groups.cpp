// The file of groups: one a line, its id and its members (port GUIDs in hexadecimal, or names).
#include <cstdio>
#include <cstdlib>
#include <istream>
#include <ostream>
#include <sstream>
#include <unordered_set>

#include "weft/mcast_routing.hpp"

namespace weft::mcast {

Status read_groups(std::istream& in, const std::string& name, const Topology& topology,
                   std::vector<Group>* groups) {
  groups->clear();
  std::unordered_set<std::string> ids;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto bad = [&](const std::string& why) {
      return Status(Code::corrupt, name + ":" + std::to_string(number) + ": " + why);
    };
    std::istringstream words(line);
    Group group;
    if (!(words >> group.id) || group.id[0] == '#') continue;
    if (!ids.insert(group.id).second) return bad("group " + group.id + " has been given before");
    std::unordered_set<uint32_t> seen;
    for (std::string word; words >> word;) {
      uint32_t member = topology.find_name(word);
      if (member == kNone) {
        char* end = nullptr;
        const uint64_t guid = std::strtoull(word.c_str(), &end, 16);
        if (*end == 0) member = topology.find_guid(guid);
      }
      if (member == kNone) return bad("unknown member " + word);
      if (!seen.insert(member).second) return bad("member " + word + " is there twice");
      group.members.push_back(member);
    }
    if (group.members.size() < 2) {
      return bad("group " + group.id + " has " + std::to_string(group.members.size()) +
                 " members; a tree needs 2");
    }
    groups->push_back(std::move(group));
  }
  return Code::ok;
}

void write_groups(const Topology& topology, const std::vector<Group>& groups, std::ostream& out) {
  char text[32];
  for (const Group& group : groups) {
    out << group.id;
    for (const uint32_t member : group.members) {
      std::snprintf(text, sizeof text, " 0x%llx",
                    static_cast<unsigned long long>(topology.endpoints[member].guid));
      out << text;
    }
    out << '\n';
  }
}

}  // namespace weft::mcast
