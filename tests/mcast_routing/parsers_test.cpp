// What the readers of fabrics, groups, events and tables accept, and what they say when they don't.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "weft/mcast_routing.hpp"

using namespace weft::mcast;  // NOLINT(google-build-using-namespace)

namespace {

const char* const kGood =
    "switchguid=0x10\nSwitch 2 \"S-1\" # \"a\"\n[1] \"H-1\"[1]\n\ncaguid=0x20\nCa 1 \"H-1\" # "
    "\"h\"\n[1](21) \"S-1\"[1]\n";

std::string topology_error(const std::string& text) {
  std::istringstream in(text);
  Topology topology;
  return read_topology(in, "t", &topology).text();
}

// kGood with its first `from` replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = kGood;
  return text.replace(text.find(from), from.size(), to);
}

Topology torus() {
  Topology topology;
  REQUIRE(make_topology("torus", {3, 1, 1, 2}, &topology).ok());
  return topology;
}

std::string tables_error(const std::string& text) {
  std::istringstream in(text);
  Tables tables;
  return read_tables(in, "m", &tables).text();
}

}  // namespace

TEST_CASE("broken topologies name line and reason") {
  REQUIRE(topology_error(kGood) == "ok");
  CHECK(topology_error(with("\"H-1\"[1]", "\"H-9\"[1]")) == "t:3: unknown node H-9");
  CHECK(topology_error(with("[1] \"H", "[3] \"H")) == "t:3: port 3 of S-1, which has 2");
  CHECK(topology_error(with("[1] \"H", "[0] \"H")) == "t:3: port 0 of S-1, which has 2");
  CHECK(topology_error(with("\"H-1\"[1]", "\"H-1\"[2]")) == "t:3: port 2 of H-1, which has 1");
  CHECK(topology_error(with("\"S-1\"[1]", "\"S-1\"[2]")) ==
        "t:3: the far end H-1[1] says otherwise");
  CHECK(topology_error(with("[1](21) \"S-1\"[1]", "[1](21)")) ==
        "t:3: the far end H-1[1] says otherwise");
  CHECK(topology_error(with("\"S-1\"[1]\n", "\"S-1\"[1]\n[1] \"S-1\"[2]\n")) ==
        "t:8: port 1 again");
  CHECK(topology_error(with("0x20", "0x10")) == "t:6: duplicate GUID: S-1 has it too");
  CHECK(
      topology_error(with("(21)", "(1234)") + "\ncaguid=7\nCa 1 \"H-2\"\n[1](1234) \"S-1\"[2]\n") ==
      "t:11: duplicate port GUID");
  CHECK(topology_error(with("\"H-1\" #", "\"S-1\" #")) == "t:6: node S-1 again");
  CHECK(topology_error(with("Switch 2", "Switch 255")) == "t:2: a node has 1 to 254 ports");
  CHECK(topology_error(with("Switch 2", "Switch 0")) == "t:2: a node has 1 to 254 ports");
  CHECK(topology_error(with("Switch 2", "Switch x")) ==
        "t:2: expected: kind of node, ports, \"id\"");
  CHECK(topology_error(with("0x10", "0x10000000000000000")) ==
        "t:1: expected a GUID of at most 16 digits");
  CHECK(topology_error(with("0x10", "0x1z")) == "t:1: more after the GUID");
  CHECK(topology_error(with("\n\n", "\nnonsense\n\n")) == "t:4: neither a port nor a blank line");
  CHECK(topology_error("[1] \"S-1\"[1]\n") == "t:1: a port outside any node");
  CHECK(topology_error(with("\"H-1\"[1]\n", "\"H-1\"[1\n")) == "t:3: expected the peer's [port]");
  CHECK(topology_error(with("\"H-1\"[1]\n", "\"H-1\n")) == "t:3: expected the peer's \"id\"");
  CHECK(topology_error("") == "t:0: no node in the file");
  CHECK(topology_error(std::string("\0x\n", 3)) == "t:1: a zero byte: this is no text");
  CHECK(topology_error("module=\"a\"\n").find("t:1: ibsim's aliases") == 0);
  CHECK(topology_error("do Unlink \"S-1\"[1]\n").find("t:1: do unlink changes the fabric") == 0);
}

TEST_CASE("a topology cut off anywhere is refused") {
  const std::string text = kGood;
  const size_t lone_switch = text.find("[1] \"H");  // up to there it is a whole fabric
  for (size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    CHECK((topology_error(text.substr(0, length)) == "ok") == (length == lone_switch));
  }
}

TEST_CASE("real files have prompts, byte-order marks, port numbers for GUIDs and remarks") {
  // As an administrator saves a terminal: on Windows, too.
  const std::string captured =
      std::string("\xef\xbb\xbf[admin@head ~]$ ibnetdiscover\n#\n# Topology file\n#\n\n") + kGood +
      "\n[admin@head ~]$ exit\n";
  CHECK(topology_error(captured) == "ok");
  std::string with_returns;
  for (char c : captured) with_returns += c == '\n' ? "\r\n" : std::string(1, c);
  CHECK(topology_error(with_returns) == "ok");
  CHECK(topology_error("[admin@head ~]$ ibnetdiscover\n") == "t:1: no node in the file");
  CHECK(topology_error(std::string(kGood) + "[admin@head ~]$ exit\n") == "t:8: expected [port]");
  CHECK(topology_error(std::string("\xff\xfe#\0\n\0", 6)) == "t:1: UTF-16: save it as UTF-8");

  Topology topology;
  std::istringstream in(
      "\xef\xbb\xbf$ ibnetdiscover\n#\n# Topology file\n#\n\nvendid=0x2c9\ndevid=0xd2f2\n"
      "sysimgguid=0x2c9\nswitchguid=0x2c9(2c9)\n"
      "Switch\t40 \"S-00000000000002c9\"\t\t# \"leaf 1\" enhanced port 0 lid 73 lmc 0\r\n"
      "[1]\t\"H-5\"[1](5) \t\t# \"node-1 HCA-1\" lid 6 4xNDR\n[2] \"H-9\"[2] w=4 s=2\n"
      "[40]\n\ncaguid=0x5\nCa\t1 \"H-5\"\t\t# \"node-1 HCA-1\"\n"
      "[1](1) \t\"S-00000000000002c9\"[1]\t\t# lid 6 lmc 0 \"leaf 1\" lid 73 4xNDR\n\n"
      "caguid=0x9\nHca\t2 \"H-9\"\t\t# \"node-1 HCA-1\"\n[2](900) \"S-00000000000002c9\"[2]\n\n"
      "rtguid=0xa0\nRt 1 \"R-a\"\n");
  REQUIRE(read_topology(in, "t", &topology).text() == "ok");
  CHECK(topology.nodes.size() == 4);
  CHECK(topology.nodes[0].guid == 0x2c9);
  CHECK(topology.nodes[0].description == "leaf 1");
  CHECK(topology.num_hosts == 2);
  CHECK(topology.endpoints[0].guid == 6);
  CHECK(topology.find_guid(0x900) == 1);
  CHECK(topology.find_name("H-9") == 1);
  CHECK(topology.find_name("node-1") == kNone);  // two have that name
  CHECK(topology.find_name("leaf") == 2);
  CHECK(topology.nodes[3].is_router);
}

TEST_CASE("ibsim's files include others and number nodes themselves") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("weft-parsers-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
  };
  const auto read = [&](Topology* topology) {
    std::ifstream in(folder / "top");
    return read_topology(in, (folder / "top").string(), topology).text();
  };
  const std::string top = (folder / "top").string(), leaf = (folder / "leaf").string();
  Topology topology;
  write("top", "switchguids=0x70\ninclude \"leaf\"\nSwitch 2 \"b\"\n[1] \"a\"[2]\ndo Dump\n");
  write("leaf", "width=1\nSwitch 3 \"a\"\n[1] \"h\"[2]\n[2] \"b\"\n\nHca 2 \"h\"\n[2] \"a\"\n");
  CHECK(read(&topology) == "ok");
  CHECK(topology.nodes[0].guid == 0x70);
  CHECK(topology.nodes[1].guid == 0x100000);
  CHECK(topology.nodes[2].guid == 0x71);
  CHECK(topology.endpoints[0].guid == 0x100002);
  write("leaf", "Switch 3 \"a\"\n[9] \"h\"\n");
  CHECK(read(&topology) == leaf + ":2: port 9 of a, which has 3");
  write("leaf", "Switch 3 \"a\"\n[1] \"c\"\n");
  CHECK(read(&topology) == leaf + ":2: unknown node c");
  write("leaf", "include \"top\"\n");
  CHECK(read(&topology).find("files include each other too deep") != std::string::npos);
  write("top", "\ninclude \"nothing\"\n");
  CHECK(read(&topology) == top + ":2: " + (folder / "nothing").string() + ": cannot be read");
  write("top", "include \"/dev/zero\"\n");
  CHECK(read(&topology) == top + ":1: /dev/zero: cannot be read");
  std::filesystem::remove_all(folder);
}

TEST_CASE("broken groups name line and reason") {
  Topology topology = torus();
  std::vector<Group> groups;
  const auto read = [&](const std::string& text) {
    std::istringstream in(text);
    return read_groups(in, "g", topology, &groups).text();
  };
  REQUIRE(read("# remark\n\n7 H-0 H-1\n8 S-0 200301\n") == "ok");
  CHECK(groups.size() == 2);
  CHECK(groups[1].members == std::vector<uint32_t>{6, 0});
  CHECK(read("7 H-0\n") == "ok");
  CHECK(read("\n7\n") == "g:2: group 7 has no members");
  CHECK(read("7 H-0 H-0\n") == "g:1: member H-0 is there twice");
  CHECK(read("7 H-0 0x200301\n") == "g:1: member 0x200301 is there twice");
  CHECK(read("7 H-0 H-77\n") == "g:1: unknown member H-77");
  CHECK(read("7 H-0 99\n") == "g:1: unknown member 99");
  CHECK(read("7 H-0 123456789123456789\n") == "g:1: unknown member 123456789123456789");
  CHECK(read("7 H-0 H-1\n7 H-0 H-2\n") == "g:2: group 7 again");
  CHECK(read("7 H-0 H-1") == "g:1: cut off: no end of line");
  for (uint32_t n = 0; n < 3; ++n) {  // take the ring's cables away
    for (Port& port : topology.nodes[n].ports) {
      if (port.node != kNone && topology.nodes[port.node].is_switch) port = {};
    }
  }
  REQUIRE(topology.finish().ok());
  CHECK(read("7 H-0 H-1\n") == "ok");
  CHECK(read("7 H-0 H-1 H-2\n") == "g:1: member H-2 cannot be reached from the members before it");
}

TEST_CASE("groups as saquery prints them") {
  Topology topology;
  REQUIRE(make_topology("torus", {3, 1, 1, 1}, &topology).ok());
  std::vector<Group> groups;
  const auto read = [&](const std::string& text) {
    std::istringstream in(text);
    return read_groups(in, "s", topology, &groups).text();
  };
  const auto gid = [&](uint32_t member) {
    char text[64];
    const uint64_t guid = topology.endpoints[member].guid;
    std::snprintf(text, sizeof text, "fe80::%llx:%llx:%llx:%llx",
                  static_cast<unsigned long long>(guid >> 48),
                  static_cast<unsigned long long>(guid >> 32 & 0xffff),
                  static_cast<unsigned long long>(guid >> 16 & 0xffff),
                  static_cast<unsigned long long>(guid & 0xffff));
    return std::string(text);
  };
  const auto member = [&](const std::string& mgid, const std::string& port) {
    return "MCMemberRecord member dump:\n\t\tMGID...................." + mgid +
           "\n\t\tMlid....................0xC000\n\t\tPortGid................." + port +
           "\n\t\tScopeState..............0x1\n\t\tProxyJoin...............0x1\n"
           "\t\tNodeDescription.........<unknown>\n";
  };
  REQUIRE(read(member("ff12:401b:ffff::1", gid(0)) + member("ff18::", gid(1)) +
               member("ff12:401b:ffff::1", gid(2))) == "ok");
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].id == "ff12:401b:ffff::1");
  CHECK(groups[0].members == std::vector<uint32_t>{0, 2});
  CHECK(groups[1].members == std::vector<uint32_t>{1});
  REQUIRE(read("MCMember Record dump:\n\t\tMGID....................ff18::1\n"
               "\t\tPortGid................." +
               gid(1) +
               "\n\t\tqkey....................0x1\n\t\tpkey....................0x8001\n") == "ok");
  CHECK(groups[0].pkey == 0x8001);
  std::ostringstream written;
  write_groups(topology, groups, written);
  CHECK(written.str().starts_with("ff18::1 pkey=0x8001 0x"));
  CHECK(read(written.str()) == "ok");
  CHECK(groups[0].pkey == 0x8001);
  CHECK(read("1 H-0 pkey=0x12345\n") == "s:1: P_Key 0x12345: expected 0x1 to 0xffff");
  CHECK(read(member("ff18::", "::")).find("--smkey") != std::string::npos);
  CHECK(read(member("ff18::", gid(0)) + member("ff18::", gid(0))).find("is there twice") !=
        std::string::npos);
  CHECK(read(member("ff18::", "fe80::99")) == "s:4: unknown member fe80::99");
  CHECK(read(member("ff18", gid(0))) == "s:2: MGID ff18?");
  CHECK(read("MCMemberRecord group dump:\n\t\tMGID....................ff18::\n")
            .find("groups without members") != std::string::npos);
  CHECK(read("MCMember Record dump:\n\t\tMGID....................ff18::\n") ==
        "s: group ff18:: has no members");
  CHECK(read("MCMember Record dump:\n\t\tPortGid.................fe80::1\n") ==
        "s:2: a PortGid without its MGID");
}

TEST_CASE("broken traces name line and reason") {
  using Kind = TraceEvent::Kind;
  Topology topology;
  REQUIRE(make_topology("torus", {3, 1, 1, 1}, &topology).ok());
  const std::vector<Group> groups = {{"a", {0, 1}}, {"b", {1, 2}}};
  std::vector<TraceEvent> events;
  const auto read = [&](const std::string& text) {
    std::istringstream in(text);
    return read_trace(in, "e", topology, groups, &events).text();
  };
  REQUIRE(read("create a\n# remark\ncreate b\ndelete a\ncreate a\n") == "ok");
  REQUIRE(events.size() == 4);
  CHECK(events[2].line == 4);
  CHECK(events[2].kind == Kind::remove);
  REQUIRE(read("create a\nleave a H-0 H-1\njoin a H-2\ndelete a\ncreate a\njoin a H-2\n") == "ok");
  REQUIRE(events.size() == 7);
  CHECK(events[2].kind == Kind::leave);
  CHECK(events[2].member == 1);
  CHECK(events[6].kind == Kind::join);
  CHECK(read("create a\ncrea") == "e:2: cut off: no end of line");
  CHECK(read("create a\ncrea\n") == "e:2: expected create, delete, join or leave, not crea");
  CHECK(read("create\n") == "e:1: create which group?");
  CHECK(read("create a b\n") == "e:1: more after the group");
  CHECK(read("create c\n") == "e:1: unknown group c");
  CHECK(read("create a\ncreate a\n") == "e:2: group a is there already");
  CHECK(read("delete a\n") == "e:1: group a is not there");
  CHECK(read("join a H-2\n") == "e:1: group a is not there");
  CHECK(read("create a\njoin a\n") == "e:2: join a of which member?");
  CHECK(read("create a\njoin a H-1\n") == "e:2: member H-1 is in group a");
  CHECK(read("create a\nleave a H-2\n") == "e:2: member H-2 is not in group a");
  CHECK(read("create a\njoin a H-9\n") == "e:2: unknown member H-9");
}

TEST_CASE("tables survive being written and read in both forms") {
  Topology topology;
  REQUIRE(make_topology("pruned-fat-tree", {5, 12, 3, 1}, &topology).ok());
  std::vector<Group> groups;
  REQUIRE(make_random_groups(topology, 30, 7, 5, &groups).ok());
  groups.push_back({"switches", {60, 3, 67}});
  std::vector<Tree> trees;
  REQUIRE(route_minhop(topology, groups, &trees).ok());
  const Tables tables = make_tables(topology, trees);
  for (const auto write : {write_mcfdbs, write_dump_fts}) {
    std::stringstream text;
    write(topology, tables, text);
    Tables again;
    REQUIRE(read_tables(text, "m", &again).text() == "ok");
    for (auto at = again.begin(); at != again.end();) {
      at = at->second.empty() ? again.erase(at) : std::next(at);
    }
    CHECK(again == tables);
    // Cut off anywhere but between switches (or, for the first form, lines) it is refused.
    const std::string whole = text.str();
    for (size_t length = 1; length < 2000; ++length) {
      std::istringstream in(whole.substr(0, length));
      CAPTURE(length);
      if (read_tables(in, "m", &again).ok()) CHECK(whole[length - 1] == '\n');
    }
  }
}

TEST_CASE("tables as the tools print them") {
  std::istringstream in(
      "Multicast mlids [0xc000-0xc3ff] of switch DR path slid 0; dlid 0; 0,8,8 guid "
      "0x0000000000000a10 (S-1 guid 0x7 (x)):\n"
      "            0                   1         \n     Ports: 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 \n"
      " MLid\n0xc006              x       x             \n0xc3ff    x x                       \n"
      "2 valid mlids dumped \n"
      "Multicast mlids [0xc000-0xc3ff] of switch Lid 7 guid 0x0000000000000b10 (S-2):\n"
      "     Ports: 0 1 2 \n MLid\n0 valid mlids dumped \n");
  Tables tables;
  // Column 10 belongs to no port.
  CHECK(read_tables(in, "m", &tables).text() == "m:6: expected an x under a port's number");
  in.clear();
  std::string text = in.str();
  text.replace(text.find("0xc3ff    x x"), 13, "0xc3ff      x");
  in.str(text);
  REQUIRE(read_tables(in, "m", &tables).text() == "ok");
  CHECK(tables.at(0xa10).at(6) == std::vector<uint16_t>{4, 8});
  CHECK(tables.at(0xa10).at(0x3ff) == std::vector<uint16_t>{0});
  CHECK(tables.at(0xb10).empty());
}

TEST_CASE("broken tables name line and reason") {
  const std::string good = "\nSwitch 0x0a\nLID    : Out Port(s)\n0xC000 : 0x001  0x002 \n";
  REQUIRE(tables_error(good) == "ok");
  CHECK(tables_error("0xC000 : 0x001\n") == "m:1: an entry outside any switch");
  CHECK(tables_error(good + "0xC000 : 0x001\n") == "m:5: the entry again");
  CHECK(tables_error(good + good) == "m:6: the switch again");
  CHECK(tables_error(good + "0xC001 : 0x001 0x001\n") == "m:5: port 1 again");
  CHECK(tables_error(good + "0xC001 : 0x0ff\n") == "m:5: bad port number");
  CHECK(tables_error(good + "0xC001 : 1\n") == "m:5: bad port number");
  CHECK(tables_error(good + "0xBFFF : 0x001\n") == "m:5: expected an MLID of 0xc000 to 0xfffe");
  CHECK(tables_error(good + "0xFFFF : 0x001\n") == "m:5: expected an MLID of 0xc000 to 0xfffe");
  CHECK(tables_error(good + "rubbish\n") == "m:5: expected MLID : ports");
  CHECK(tables_error(good + "0xC001 : 0x001") == "m:5: the last line is cut off: no end of line");
  CHECK(tables_error("Switch 0x\n") == "m:1: expected a switch's GUID");
  const std::string dump = "Multicast mlids [0xc000-0xc3ff] of switch Lid 7 guid 0xb (S):\n MLid\n";
  const std::string row = "0xc001          x\n";
  CHECK(tables_error(dump + row + "1 valid mlids dumped \n") == "ok");
  CHECK(tables_error(dump + row + "2 valid mlids dumped \n") ==
        "m:4: 2 entries announced, 1 there");
  CHECK(tables_error(dump + row) == "m:3: cut off: no line says how many entries there are");
  CHECK(tables_error(dump + row + dump) ==
        "m:4: cut off: no line says how many entries the last switch has");
  CHECK(tables_error(dump + "0xc001 7\n") == "m:3: expected an x under a port's number");
  CHECK(tables_error(dump + "hello\n") == "m:3: expected an MLID and its ports");
  CHECK(tables_error("Multicast mlids [0xc000\n") == "m:1: expected the switch's GUID");
  CHECK(tables_error("Multicast mlids [1] of switch Lid 7 guid 0xb (S\n") ==
        "m:1: expected the switch's GUID and (description):");
}
