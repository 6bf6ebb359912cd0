// Every kind of fabric is routed by every algorithm and the tables proved by forwarding packets.
#include "weft/mcast_routing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

using weft::Code;
using weft::Status;
using namespace weft::mcast;

namespace {

struct Kind {
  const char* kind;
  std::vector<uint32_t> sizes;
};

const Kind kKinds[] = {{"fat-tree", {8}},        {"pruned-fat-tree", {12, 10, 3, 2}},
                       {"torus", {5, 4, 4, 2}},  {"torus", {2, 2, 1, 3}},
                       {"dragonfly", {4, 2, 2}}, {"random", {32, 4, 6, 7}}};

Status check(const Topology& topology, const std::vector<Group>& groups,
             const std::vector<Tree>& trees, uint32_t colors) {
  const Served served = served_groups(groups, trees);
  return verify_tables(topology, served.groups, served.entry_of, make_tables(topology, trees),
                       colors);
}

}  // namespace

TEST_CASE("every algorithm's tables deliver one copy to every member") {
  uint32_t relieved = 0;
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.kind);
    Topology topology;
    REQUIRE(make_topology(kind.kind, kind.sizes, &topology).ok());
    std::vector<Group> groups;
    REQUIRE(make_random_groups(topology, 60, 6, 5, &groups).ok());
    std::vector<Tree> trees;
    REQUIRE(route_minhop(topology, groups, &trees).ok());
    REQUIRE(check(topology, groups, trees, kNone).text() == "ok");
    const uint32_t minhop_efi = measure(topology, trees).max_efi;
    REQUIRE(route_paper_sssp(topology, groups, true, &trees).ok());
    REQUIRE(check(topology, groups, trees, kNone).text() == "ok");
    for (const uint32_t colors : {kNone, 20u, 4u, 1u}) {
      for (const bool keep : {true, false}) {
        CAPTURE(colors, keep);
        Router router(topology, {colors, keep, 4});
        for (uint32_t g = 0; g < groups.size(); ++g) {
          REQUIRE(router.add_group(g, groups[g]).text() == "ok");
          // Every state in between must be right as well, not only the last.
          if (g % 7 == 0) {
            REQUIRE(check(topology, groups, router.trees(), colors).text() == "ok");
          }
        }
        REQUIRE(check(topology, groups, router.trees(), colors).text() == "ok");
        const Figures before = measure(topology, router.trees());
        router.spread();
        const Figures after = measure(topology, router.trees());
        REQUIRE(check(topology, groups, router.trees(), colors).text() == "ok");
        REQUIRE(after.max_efi <= before.max_efi);
        REQUIRE(after.max_height <= before.max_height);
        relieved += after.max_efi < before.max_efi;
        if (colors == kNone) REQUIRE(measure(topology, router.trees()).max_efi <= minhop_efi);
        for (uint32_t g = 0; g < groups.size(); g += 2) REQUIRE(router.remove_group(g).ok());
        REQUIRE(check(topology, groups, router.trees(), colors).text() == "ok");
        for (uint32_t g = 1; g < groups.size(); g += 2) REQUIRE(router.remove_group(g).ok());
        REQUIRE(router.trees().empty());
      }
    }
  }
  REQUIRE(relieved > 4);
}

TEST_CASE("members join and leave without a change of other groups' entries") {
  for (const Kind& kind : kKinds) {
    for (const uint32_t colors : {kNone, 6u, 1u}) {
      CAPTURE(kind.kind, colors);
      Topology topology;
      REQUIRE(make_topology(kind.kind, kind.sizes, &topology).ok());
      std::vector<Group> groups;
      REQUIRE(make_random_groups(topology, 20, 4, 9, &groups).ok());
      groups.push_back({"one", {1}});
      Router router(topology, {colors, true, 4});
      for (uint32_t g = 0; g < groups.size(); ++g) REQUIRE(router.add_group(g, groups[g]).ok());
      uint32_t random = 7;
      for (int step = 0; step < 300; ++step) {
        random = random * 1103515245u + 12345u;
        const uint32_t g = (random >> 8) % groups.size();
        std::vector<uint32_t>& members = groups[g].members;
        const uint32_t member = (random >> 16) % topology.endpoints.size();
        const auto place = std::find(members.begin(), members.end(), member);
        const Tables before = make_tables(topology, router.trees());
        router.take_changes();
        const bool joins = place == members.end();
        if (joins) {
          REQUIRE(router.leave_group(g, member) == Code::not_found);
          REQUIRE(router.join_group(g, member).text() == "ok");
          members.push_back(member);
        } else {
          REQUIRE(router.join_group(g, member) == Code::bad_argument);
          REQUIRE(router.leave_group(g, member).text() == "ok");
          members.erase(place);
        }
        const std::vector<Tree> trees = router.trees();
        REQUIRE(check(topology, groups, trees, colors).text() == "ok");
        const std::vector<uint64_t> changes = router.take_changes();
        const Tables after = make_tables(topology, trees);
        const auto entry = [&](const Tables& tables, uint32_t s, uint32_t color) {
          const auto table = tables.find(topology.nodes[topology.switch_nodes[s]].guid);
          if (table == tables.end()) return std::vector<uint16_t>();
          const auto found = table->second.find(color);
          return found == table->second.end() ? std::vector<uint16_t>() : found->second;
        };
        size_t num_differ = 0;
        for (uint32_t s = 0; s < topology.num_switches(); ++s) {
          for (uint32_t color = 0; color < 64; ++color) {
            if (entry(before, s, color) == entry(after, s, color)) continue;
            ++num_differ;
            REQUIRE(std::binary_search(changes.begin(), changes.end(), uint64_t{s} << 32 | color));
          }
        }
        if (colors != kNone || members.size() < 3) continue;
        // Without a limit each group has an entry of its own, and those of others do not change.
        REQUIRE(changes.size() == num_differ);
        for (const Tree& tree : trees) {
          if (tree.groups[0] == g) continue;
          for (const uint32_t s : tree.switches) {
            REQUIRE(entry(before, s, tree.color) == entry(after, s, tree.color));
          }
        }
      }
      for (uint32_t g = 0; g < groups.size(); ++g) REQUIRE(router.remove_group(g).ok());
      REQUIRE(router.trees().empty());
    }
  }
}

TEST_CASE("a cable that is gone moves its own groups alone") {
  for (const Kind& kind : kKinds) {
    for (const uint32_t colors : {kNone, 8u}) {
      CAPTURE(kind.kind, colors);
      Topology topology;
      REQUIRE(make_topology(kind.kind, kind.sizes, &topology).ok());
      std::vector<Group> groups;
      REQUIRE(make_random_groups(topology, 40, 5, 3, &groups).ok());
      Tables before;
      std::vector<Tree> old_trees;
      {
        Router router(topology, {colors, true, 4});
        for (uint32_t g = 0; g < groups.size(); ++g) REQUIRE(router.add_group(g, groups[g]).ok());
        old_trees = router.trees();
        before = make_tables(topology, old_trees);
        Router same(topology, {colors, true, 4});
        for (const bool is_kept : same.keep(before, groups)) REQUIRE(is_kept);
        REQUIRE(check(topology, groups, same.trees(), colors).text() == "ok");
        if (colors == kNone) REQUIRE((make_tables(topology, same.trees()) == before));
      }
      // The cable of most trees.
      std::vector<uint32_t> loads = cable_loads(topology, old_trees);
      const auto busiest =
          static_cast<size_t>(std::max_element(loads.begin(), loads.end()) - loads.begin());
      const uint32_t ends[] = {topology.arc_from[busiest], topology.arcs[busiest].to};
      const uint16_t ports[] = {topology.arcs[busiest].port,
                                topology.arcs[topology.arcs[busiest].reverse].port};
      Topology broken = topology;
      for (int i = 0; i < 2; ++i) {
        broken.nodes[broken.switch_nodes[ends[i]]].ports[ports[i]] = {};
      }
      REQUIRE(broken.finish().ok());
      Router router(broken, {colors, true, 4});
      const std::vector<bool> kept = router.keep(before, groups);
      const auto is_hit = [&](const Tree& tree) {
        return std::any_of(tree.links.begin(), tree.links.end(), [&](uint32_t link) {
          return link == busiest || topology.arcs[link].reverse == busiest;
        });
      };
      size_t num_hit = 0;
      for (const Tree& tree : old_trees) {
        for (const uint32_t g : tree.groups) {
          // Another tree may have all its members as well.
          if (!is_hit(tree)) REQUIRE(kept[g]);
          num_hit += is_hit(tree);
        }
      }
      REQUIRE(num_hit > 0);
      for (uint32_t g = 0; g < groups.size(); ++g) {
        if (!kept[g]) REQUIRE(router.add_group(g, groups[g]).text() == "ok");
      }
      REQUIRE(check(broken, groups, router.trees(), colors).text() == "ok");
      if (colors != kNone) continue;  // else groups may have to merge
      const Tables after = make_tables(broken, router.trees());
      for (const Tree& tree : old_trees) {
        if (is_hit(tree)) continue;
        for (const uint32_t s : tree.switches) {
          const uint64_t guid = topology.nodes[topology.switch_nodes[s]].guid;
          REQUIRE(after.at(guid).at(tree.color) == before.at(guid).at(tree.color));
        }
      }
    }
  }
}

TEST_CASE("the check refuses wrong tables") {
  Topology topology;
  REQUIRE(make_topology("fat-tree", {4}, &topology).ok());
  const std::vector<Group> groups = {{"0", {0, 15}}};
  std::vector<Tree> trees;
  REQUIRE(route_minhop(topology, groups, &trees).ok());
  const Tables good = make_tables(topology, trees);
  REQUIRE(verify_tables(topology, groups, {0}, good, 1).ok());
  for (const auto& [guid, entries] : good) {
    for (size_t i = 0; i < entries.at(0).size(); ++i) {
      Tables bad = good;
      auto& ports = bad[guid][0];
      ports.erase(ports.begin() + i);
      CHECK_FALSE(verify_tables(topology, groups, {0}, bad, 1).ok());
    }
  }
  CHECK_FALSE(verify_tables(topology, groups, {1}, good, 1).ok());
  CHECK_FALSE(verify_tables(topology, groups, {0}, good, 0).ok());
}

TEST_CASE("topologies and tables survive being written and read") {
  for (const Kind& kind : kKinds) {
    Topology topology, again;
    REQUIRE(make_topology(kind.kind, kind.sizes, &topology).ok());
    std::stringstream text, second;
    write_topology(topology, text);
    const std::string first = text.str();
    REQUIRE(read_topology(text, "t", &again).text() == "ok");
    write_topology(again, second);
    CHECK(first == second.str());
  }
}

TEST_CASE("groups that cannot be routed are refused") {
  Topology topology;
  REQUIRE(make_topology("torus", {1, 1, 1, 3}, &topology).ok());
  Router router(topology, {4, true, 1});
  CHECK(router.add_group(0, {"a", {}}) == Code::bad_argument);
  CHECK(router.add_group(0, {"a", {0, 99}}) == Code::bad_argument);
  CHECK(router.add_group(0, {"a", {0, 1}}).ok());
  CHECK(router.add_group(0, {"a", {0, 1}}) == Code::bad_argument);
  CHECK(router.remove_group(1) == Code::not_found);
}
