// The file of groups, one a line: its id and its members (port GUIDs in hexadecimal, or names); and
// the file of events, one a line: create or delete and the id of a group, or join or leave and
// members behind it.
#include <cstdio>
#include <istream>
#include <ostream>
#include <sstream>
#include <unordered_set>

#include "mcast/routing/text_cursor.hpp"
#include "weft/mcast_routing.hpp"

namespace weft::mcast {

namespace {

// Calls each(line, number) for every line until one is refused; messages get "name:line: " in
// front. A last line without an end may have been cut off in the middle of a word, so it is
// refused.
template <typename Each>
Status for_lines(std::istream& in, const std::string& name, Each each) {
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const Status status =
        in.eof() ? Status(Code::corrupt, "cut off: no end of line") : each(line, number);
    if (!status.ok()) {
      return {Code::corrupt, name + ":" + std::to_string(number) + ": " + status.text()};
    }
  }
  return Code::ok;
}

Status bad(const std::string& why) { return {Code::corrupt, why}; }

uint32_t find_member(const Topology& topology, const std::string& word) {
  const uint32_t member = topology.find_name(word);
  TextCursor c(word);
  uint64_t guid = 0;
  return member == kNone && c.take_number(16, &guid) && c.at_end() ? topology.find_guid(guid)
                                                                   : member;
}

}  // namespace

Status read_groups(std::istream& in, const std::string& name, const Topology& topology,
                   std::vector<Group>* groups) {
  groups->clear();
  std::unordered_set<std::string> ids;
  return for_lines(in, name, [&](const std::string& line, int) -> Status {
    std::istringstream words(line);
    Group group;
    if (!(words >> group.id) || group.id[0] == '#') return Code::ok;
    if (!ids.insert(group.id).second) return bad("group " + group.id + " again");
    std::unordered_set<uint32_t> seen;
    for (std::string word; words >> word;) {
      const uint32_t member = find_member(topology, word);
      if (member == kNone) return bad("unknown member " + word);
      if (!seen.insert(member).second) return bad("member " + word + " is there twice");
      group.members.push_back(member);
      const auto part = [&](uint32_t m) {
        return topology.part_of[topology.endpoints[m].on_switch];
      };
      if (part(member) != part(group.members[0])) {
        return bad("member " + word + " cannot be reached from the members before it");
      }
    }
    if (group.members.empty()) return bad("group " + group.id + " has no members");
    groups->push_back(std::move(group));
    return Code::ok;
  });
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

Status read_trace(std::istream& in, const std::string& name, const Topology& topology,
                  const std::vector<Group>& groups, std::vector<TraceEvent>* events) {
  using Kind = TraceEvent::Kind;
  const std::unordered_map<std::string, Kind> kinds = {{"create", Kind::create},
                                                       {"delete", Kind::remove},
                                                       {"join", Kind::join},
                                                       {"leave", Kind::leave}};
  events->clear();
  std::unordered_map<std::string, uint32_t> by_id;
  for (uint32_t g = 0; g < groups.size(); ++g) by_id[groups[g].id] = g;
  std::unordered_map<uint32_t, std::unordered_set<uint32_t>> alive;  // group: its members now
  return for_lines(in, name, [&](const std::string& line, int number) -> Status {
    std::istringstream words(line);
    std::string verb, id, word;
    if (!(words >> verb) || verb[0] == '#') return Code::ok;
    const auto kind = kinds.find(verb);
    if (kind == kinds.end()) return bad("expected create, delete, join or leave, not " + verb);
    if (!(words >> id)) return bad(verb + " which group?");
    const auto group = by_id.find(id);
    if (group == by_id.end()) return bad("unknown group " + id);
    TraceEvent event{kind->second, group->second, kNone, number};
    const auto is_alive = alive.find(event.group);
    if ((event.kind == Kind::create) != (is_alive == alive.end())) {
      return bad("group " + id +
                 (event.kind == Kind::create ? " is there already" : " is not there"));
    }
    if (event.kind == Kind::create || event.kind == Kind::remove) {
      if (words >> word) return bad("more after the group");
      if (event.kind == Kind::remove) {
        alive.erase(is_alive);
      } else {
        const auto& members = groups[event.group].members;
        alive[event.group].insert(members.begin(), members.end());
      }
      events->push_back(event);
      return Code::ok;
    }
    if (!(words >> word)) return bad(verb + " " + id + " of which member?");
    std::unordered_set<uint32_t>& members = is_alive->second;
    do {
      event.member = find_member(topology, word);
      if (event.member == kNone) return bad("unknown member " + word);
      const bool is_member = members.count(event.member) != 0;
      if ((event.kind == Kind::join) == is_member) {
        return bad("member " + word + (is_member ? " is" : " is not") + " in group " + id);
      }
      const auto part = [&](uint32_t m) {
        return topology.part_of[topology.endpoints[m].on_switch];
      };
      if (!is_member && !members.empty() && part(event.member) != part(*members.begin())) {
        return bad("member " + word + " cannot be reached from the members of group " + id);
      }
      if (is_member) {
        members.erase(event.member);
      } else {
        members.insert(event.member);
      }
      events->push_back(event);
    } while (words >> word);
    return Code::ok;
  });
}

}  // namespace weft::mcast
