// The fabrics of the conformance suite: a row each.
#include "fabric/loopback/loopback.hpp"
#include "fabric/shm/endpoint.hpp"
#ifdef WEFT_HAVE_OFI
#include "fabric/ofi/messages.hpp"
#endif
#include "tests/fabric/conformance.hpp"

namespace weft::fabric::testing {

namespace {

std::unique_ptr<Endpoint> loopback_that_only_sends() {
  static const auto network = [] {
    auto made = std::make_shared<loopback::Network>();
    made->set_options({.message_max = 256, .puts = false, .gets = false, .atomics = false});
    return made;
  }();
  return loopback::make_endpoint(network);
}

#ifdef WEFT_HAVE_OFI
std::unique_ptr<Endpoint> ofi_over_tcp() {
  Settings settings;
  std::unique_ptr<Endpoint> endpoint;
  REQUIRE(settings.set("OFI_INTERFACE", "lo").ok());
  REQUIRE(ofi::make_endpoint(settings, endpoint).ok());
  return endpoint;
}
#endif

}  // namespace

std::vector<FabricRow> fabrics() {
  return {
      {"loopback", [] { return loopback::make_endpoint(); }},
      {"loopback, messages only", loopback_that_only_sends},
      {"shm", shm::make_endpoint},
#ifdef WEFT_HAVE_OFI
      {"ofi", ofi_over_tcp},
#endif
  };
}

}  // namespace weft::fabric::testing
