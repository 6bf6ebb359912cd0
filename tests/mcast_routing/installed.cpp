// A program of somebody else's: which groups get a tree in hardware, as groups come and go.
#include <weft/mcast_routing.hpp>

#include <cstdio>
#include <sstream>

using namespace weft::mcast;

int main() {
  Topology topology;
  std::vector<Group> groups;
  if (!make_topology("fat-tree", {8}, &topology).ok()) return 1;
  if (!make_random_groups(topology, 40, 6, 1, &groups).ok()) return 2;
  RouterOptions options;
  options.colors = 16;
  Router router(topology, options);
  for (uint32_t g = 0; g < groups.size(); ++g) {
    const weft::Status added = router.add_group(g, groups[g]);
    if (!added.ok()) return std::fprintf(stderr, "%s\n", added.text().c_str()), 3;
  }
  if (!router.remove_group(7).ok() || router.remove_group(7).ok()) return 4;
  if (router.take_changes().empty() || !router.take_changes().empty()) return 5;
  router.spread();
  const std::vector<Tree> trees = router.trees();
  const Served served = served_groups(groups, trees);
  if (served.groups.size() != groups.size() - 1) return 6;
  const Tables tables = make_tables(topology, trees);
  if (!verify_tables(topology, served.groups, served.entry_of, tables, options.colors).ok()) {
    return 7;
  }
  std::stringstream text;
  write_mcfdbs(topology, tables, text);
  Tables again;
  if (!read_tables(text, "text", &again).ok() || again != tables) return 8;
  return measure(topology, trees).colors <= options.colors ? 0 : 9;
}
