// Whatever is read as a fabric can be written, and reads as the same fabric again.
#include <cstdlib>
#include <sstream>

#include "weft/mcast_routing.hpp"

using weft::mcast::Topology;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  Topology topology;
  if (!read_topology(in, "input", &topology).ok()) return 0;
  std::stringstream first, second;
  write_topology(topology, first);
  Topology again;
  if (!read_topology(first, "again", &again).ok()) std::abort();
  write_topology(again, second);
  if (first.str() != second.str()) std::abort();
  return 0;
}
