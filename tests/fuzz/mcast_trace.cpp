// Every trace that is read can be carried out, whatever groups come and go in it.
#include <cstdlib>
#include <sstream>

#include "mcast_torus.hpp"
#include "weft/mcast_routing.hpp"

using namespace weft::mcast;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Topology& topology = small_torus();
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
  const auto prove = [&] {
    const std::vector<Tree> trees = router.trees();
    const Served served = served_groups(groups, trees);
    if (!verify_tables(topology, served.groups, served.entry_of, make_tables(topology, trees), 2)
             .ok()) {
      std::abort();
    }
  };
  prove();
  router.spread();
  prove();
  return 0;
}
