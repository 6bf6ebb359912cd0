#include "fabric/inspection.hpp"

#include <fmt/core.h>

#include <fstream>

namespace weft::fabric {
namespace {

// A number of /sys/class/net; -1: there is none, as the speed of an interface in software.
long number_of(const std::string& interface, const char* name) {
  long number = -1;
  std::ifstream(fmt::format("/sys/class/net/{}/{}", interface, name)) >> number;
  return number;
}

}  // namespace

void inspect_interface(std::string_view fabric, std::string_view what, const Interface& interface,
                       Inspection& inspection) {
  using Level = Finding::Level;
  Place place{interface.name, interface.name, interface.address, 0, 0};
  std::string speed = "speed unknown";
  if (const long mbit = number_of(interface.name, "speed"); mbit > 0) {
    place.gbit_per_s = static_cast<double>(mbit) / 1000;
    speed = fmt::format("{:g} Gbit/s", place.gbit_per_s);
  }
  if (const long mtu = number_of(interface.name, "mtu"); mtu > 0)
    place.mtu = static_cast<unsigned>(mtu);
  const bool is_loopback = interface.name == "lo" || interface.address.starts_with("127.");
  inspection.findings.push_back(
      {is_loopback ? Level::warning : Level::ok, std::string(fabric),
       fmt::format("{}{}, {}, MTU {}{}", what, list_text({interface}), speed, place.mtu,
                   is_loopback ? ": no other host reaches the loopback" : ""),
       is_loopback ? "give an interface an address and take it up (ip address; ip link set up), or "
                     "name it: WEFT_INTERFACE"
                   : ""});
  inspection.places.push_back(std::move(place));
}

}  // namespace weft::fabric
