// The file of groups, one a line: its id and its members (port GUIDs in hexadecimal, or names), or
// what saquery prints; and the file of events, one a line: create or delete and the id of a group,
// or join or leave and members behind it.
#include <arpa/inet.h>

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

namespace {

// Adds a member that is no duplicate and that the others reach.
Status add_member(const Topology& topology, uint32_t member, const std::string& word,
                  std::unordered_set<uint32_t>* seen, Group* group) {
  if (member == kNone) return bad("unknown member " + word);
  if (!seen->insert(member).second) return bad("member " + word + " is there twice");
  group->members.push_back(member);
  const auto part = [&](uint32_t m) { return topology.part_of[topology.endpoints[m].on_switch]; };
  if (part(member) != part(group->members[0])) {
    return bad("member " + word + " cannot be reached from the members before it");
  }
  return Code::ok;
}

Status read_pkey(const std::string& text, Group* group) {
  TextCursor c(text);
  uint64_t number = 0;
  if (!c.take_number(16, &number) || !c.at_end() || number == 0 || number > 0xffff) {
    return bad("P_Key " + text + ": expected 0x1 to 0xffff");
  }
  group->pkey = static_cast<uint16_t>(number);
  return Code::ok;
}

Status take_line(const Topology& topology, const std::string& line,
                 std::unordered_set<std::string>* ids, std::vector<Group>* groups) {
  std::istringstream words(line);
  Group group;
  if (!(words >> group.id) || group.id[0] == '#') return Code::ok;
  if (!ids->insert(group.id).second) return bad("group " + group.id + " again");
  std::unordered_set<uint32_t> seen;
  for (std::string word; words >> word;) {
    const Status status =
        word.starts_with("pkey=")
            ? read_pkey(word.substr(5), &group)
            : add_member(topology, find_member(topology, word), word, &seen, &group);
    if (!status.ok()) return status;
  }
  if (group.members.empty()) return bad("group " + group.id + " has no members");
  groups->push_back(std::move(group));
  return Code::ok;
}

// The records of multicast members that a subnet manager has, as saquery prints them: a line that
// begins with MCMember, and then name and value with points between.
class MemberRecords {
 public:
  MemberRecords(const Topology& topology, std::vector<Group>* groups)
      : topology_(topology), groups_(groups) {}
  static bool begins(const std::string& line) { return line.starts_with("MCMember"); }
  Status take(const std::string& line) {
    if (begins(line)) {
      if (line.find("group dump") != std::string::npos) {
        return bad("these are groups without members: saquery -m prints them");
      }
      group_ = nullptr;
      return Code::ok;
    }
    const size_t first = line.find_first_not_of(" \t"), points = line.find("..");
    if (first == std::string::npos) return Code::ok;
    if (points == std::string::npos) return bad("expected a name, points and a value");
    const std::string name = line.substr(first, points - first);
    const size_t begin = line.find_first_not_of('.', points);
    const std::string value = begin == std::string::npos ? "" : line.substr(begin);
    if (name == "MGID") return take_mgid(value);
    if (name == "PortGid") return take_port(value);
    if (name == "pkey" && group_ != nullptr) return read_pkey(value, group_);
    return Code::ok;
  }

 private:
  Status take_mgid(const std::string& value) {
    in6_addr address{};
    if (inet_pton(AF_INET6, value.c_str(), &address) != 1) return bad("MGID " + value + "?");
    const auto [found, is_new] = places_.try_emplace(value, groups_->size());
    if (is_new) {
      groups_->emplace_back().id = value;
      seen_.emplace_back();
    }
    place_ = found->second;
    group_ = &(*groups_)[place_];
    return Code::ok;
  }
  Status take_port(const std::string& value) {
    if (group_ == nullptr) return bad("a PortGid without its MGID");
    const std::string text = value.substr(0, value.find(' '));
    in6_addr address{};
    if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return bad("PortGid " + value + "?");
    uint64_t guid = 0;
    for (int i = 8; i < 16; ++i) guid = guid << 8 | address.s6_addr[i];
    if (guid == 0) {
      return bad("the subnet manager does not tell the members: run saquery with --smkey");
    }
    return add_member(topology_, topology_.find_guid(guid), text, &seen_[place_], group_);
  }

  const Topology& topology_;
  std::vector<Group>* groups_;
  std::unordered_map<std::string, size_t> places_;
  std::vector<std::unordered_set<uint32_t>> seen_;
  size_t place_ = 0;
  Group* group_ = nullptr;
};

}  // namespace

Status read_groups(std::istream& in, const std::string& name, const Topology& topology,
                   std::vector<Group>* groups) {
  groups->clear();
  std::unordered_set<std::string> ids;
  MemberRecords records(topology, groups);
  bool is_saquery = false;
  const Status status = for_lines(in, name, [&](const std::string& line, int number) {
    if (number == 1) is_saquery = MemberRecords::begins(line);
    return is_saquery ? records.take(line) : take_line(topology, line, &ids, groups);
  });
  if (!status.ok()) return status;
  for (const Group& group : *groups) {
    if (group.members.empty()) return bad(name + ": group " + group.id + " has no members");
  }
  return Code::ok;
}

void write_groups(const Topology& topology, const std::vector<Group>& groups, std::ostream& out) {
  char text[32];
  for (const Group& group : groups) {
    out << group.id;
    if (group.pkey != 0) {
      std::snprintf(text, sizeof text, " pkey=0x%x", group.pkey);
      out << text;
    }
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
