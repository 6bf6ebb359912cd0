#include "fabric/ofi/inspect.hpp"

#include <fmt/core.h>

#include <fstream>

#include "fabric/interfaces.hpp"
#include "fabric/ofi/endpoint.hpp"

namespace weft::ofi {
namespace {

// A number of /sys/class/net; -1: there is none, as the speed of an interface in software.
long number_of(const std::string& interface, const char* name) {
  long number = -1;
  std::ifstream(fmt::format("/sys/class/net/{}/{}", interface, name)) >> number;
  return number;
}

}  // namespace

void inspect(const Settings& settings, fabric::Inspection& inspection) {
  using Level = Finding::Level;
  Offers offers;
  if (const Status status = offers.find(settings); !status) {
    inspection.findings.push_back({Level::error, "libfabric", status.text(),
                                   "install it with its providers (apt install libfabric1), or "
                                   "name what is there: fi_info -l"});
    return;
  }
  const fabric::Interface& chosen = offers.interfaces().front();
  const std::string provider = offers.info().fabric_attr->prov_name;
  fabric::Place place{chosen.name, chosen.name, chosen.address, 0, 0};
  std::string speed = "speed unknown";
  if (const long mbit = number_of(chosen.name, "speed"); mbit > 0) {
    place.gbit_per_s = static_cast<double>(mbit) / 1000;
    speed = fmt::format("{:g} Gbit/s", place.gbit_per_s);
  }
  if (const long mtu = number_of(chosen.name, "mtu"); mtu > 0)
    place.mtu = static_cast<unsigned>(mtu);
  const bool is_loopback = chosen.name == "lo" || chosen.address.starts_with("127.");
  inspection.findings.push_back(
      {is_loopback ? Level::warning : Level::ok, "ofi",
       fmt::format("{} on {}{}{}, {}, MTU {}{}", provider, chosen.name,
                   chosen.address.empty() ? "" : " ", chosen.address, speed, place.mtu,
                   is_loopback ? ": no other host reaches the loopback" : ""),
       is_loopback ? "give an interface an address and take it up (ip address; ip link set up), or "
                     "name it: WEFT_INTERFACE"
                   : ""});
  inspection.places.push_back(std::move(place));
}

}  // namespace weft::ofi
