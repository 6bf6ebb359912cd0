// Whatever is read as tables can be written and reads as the same tables again, and forwarding
// packets through any tables ends.
#include <cstdlib>
#include <sstream>

#include "mcast_torus.hpp"
#include "weft/mcast_routing.hpp"

using namespace weft::mcast;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Topology& topology = small_torus();
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  Tables tables, again;
  if (!read_tables(in, "input", &tables).ok()) return 0;
  const std::vector<Group> groups = {{"a", {0, 9, 23}}, {"b", {5, 6}}};
  (void)verify_tables(topology, groups, {}, tables, kNone);
  std::stringstream text, second;
  write_mcfdbs(topology, tables, text);
  if (!read_tables(text, "again", &again).ok()) std::abort();
  write_mcfdbs(topology, again, second);
  if (text.str() != second.str()) std::abort();
  return 0;
}
