// Every trace that is read can be carried out, whatever groups come and go in it.
#include <cstdlib>
#include <sstream>

#include "mcast_torus.hpp"
#include "weft/mcast_routing.hpp"

using weft::Status;
using namespace weft::mcast;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Topology& topology = small_torus();
  std::vector<Group> groups = {
      {"0", {0, 9, 23}}, {"1", {5, 6}}, {"2", {5, 6, 7, 8}}, {"3", {0, 1}}, {"4", {22, 4, 13}}};
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<TraceEvent> events;
  if (!read_trace(in, "input", topology, groups, &events).ok()) return 0;
  const std::vector<Group> made = groups;
  Router router(topology, {2, true, 1});
  for (const TraceEvent& event : events) {
    using Kind = TraceEvent::Kind;
    Group& group = groups[event.group];
    Status done;
    switch (event.kind) {
      case Kind::create:
        group = made[event.group];
        done = router.add_group(event.group, group);
        break;
      case Kind::remove:
        done = router.remove_group(event.group);
        break;
      case Kind::join:
        group.members.push_back(event.member);
        done = router.join_group(event.group, event.member);
        break;
      case Kind::leave:
        std::erase(group.members, event.member);
        done = router.leave_group(event.group, event.member);
        break;
    }
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
