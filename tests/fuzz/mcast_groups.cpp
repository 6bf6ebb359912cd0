// Whatever is read as groups of a small fabric can be routed or is refused, and reads as the same
// groups when written.
#include <cstdlib>
#include <sstream>

#include "mcast_torus.hpp"
#include "weft/mcast_routing.hpp"

using namespace weft::mcast;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Topology& topology = small_torus();
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<Group> groups, again;
  if (!read_groups(in, "input", topology, &groups).ok()) return 0;
  std::vector<Tree> trees;
  if (!route_minhop(topology, groups, &trees).ok()) std::abort();
  std::stringstream text, second;
  write_groups(topology, groups, text);
  if (!read_groups(text, "again", topology, &again).ok()) std::abort();
  write_groups(topology, again, second);
  if (text.str() != second.str()) std::abort();
  return 0;
}
