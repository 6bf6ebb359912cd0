// Every trace that is read can be carried out, whatever groups come and go in it.
#include <cstdlib>
#include <sstream>

#include "weft/mcast_routing.hpp"

using namespace weft::mcast;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Topology topology = [] {
    Topology made;
    if (!make_topology("torus", {3, 2, 2, 2}, &made).ok()) std::abort();
    return made;
  }();
  static const std::vector<Group> groups = {
      {"0", {0, 9, 23}}, {"1", {5, 6}}, {"2", {5, 6, 7, 8}}, {"3", {0, 1}}, {"4", {22, 4, 13}}};
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<TraceEvent> events;
  if (!read_trace(in, "input", groups, &events).ok()) return 0;
  Router router(topology, {2, true, 1});
  for (const TraceEvent& event : events) {
    const auto done = event.create ? router.add_group(event.group, groups[event.group])
                                   : router.remove_group(event.group);
    if (!done.ok()) std::abort();
  }
  std::vector<Group> alive;
  std::vector<uint32_t> entries;
  const std::vector<Tree> trees = router.trees();
  for (const Tree& tree : trees) {
    for (const uint32_t g : tree.groups) {
      alive.push_back(groups[g]);
      entries.push_back(tree.color);
    }
  }
  if (!verify_tables(topology, alive, entries, make_tables(topology, trees), 2).ok()) std::abort();
  return 0;
}
