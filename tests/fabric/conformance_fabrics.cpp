// The fabrics of the conformance suite: a row each. WEFT_TEST_FABRIC=verbs: that alone, which must
// be there; otherwise it is tested where there is a device.
#include <cstdlib>
#include <iostream>

#include "fabric/shm/endpoint.hpp"
#include "fabric/tcp/endpoint.hpp"
#include "tests/support/loopback/loopback.hpp"
#ifdef WEFT_HAVE_OFI
#include "fabric/ofi/messages.hpp"
#endif
#ifdef WEFT_HAVE_VERBS
#include "fabric/verbs/endpoint.hpp"
#endif
#include "tests/fabric/conformance.hpp"
#include "tests/support/named_device.hpp"

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

#ifdef WEFT_HAVE_VERBS
Status make_verbs(std::unique_ptr<Endpoint>& endpoint) {
  Settings settings;
  REQUIRE(settings.set("DEVICE", weft::testing::named_device()).ok());
  return verbs::make_endpoint(settings, endpoint);
}
std::unique_ptr<Endpoint> verbs_of_this_machine() {
  std::unique_ptr<Endpoint> endpoint;
  Status status = make_verbs(endpoint);
  INFO(status.text());
  REQUIRE(status.ok());
  return endpoint;
}
bool has_device() {
  std::unique_ptr<Endpoint> endpoint;
  Status status = make_verbs(endpoint);
  if (!status) std::cout << "skipped: verbs: " << status.text() << '\n';
  return status.ok();
}
#endif

std::vector<FabricRow> make_rows() {
  const char* only = std::getenv("WEFT_TEST_FABRIC");
  if (only != nullptr && std::string(only) == "verbs") {
#ifdef WEFT_HAVE_VERBS
    return {{"verbs", verbs_of_this_machine}};
#else
    FAIL("this build has no verbs");
#endif
  }
  std::vector<FabricRow> rows = {
      {"loopback", [] { return loopback::make_endpoint(); }},
      {"loopback, messages only", loopback_that_only_sends},
      {"shm", shm::make_endpoint},
      {"tcp", on_loopback<tcp::make_endpoint>},
#ifdef WEFT_HAVE_OFI
      {"ofi", on_loopback<ofi::make_endpoint>},
#endif
  };
#ifdef WEFT_HAVE_VERBS
  if (has_device()) rows.push_back({"verbs", verbs_of_this_machine});
#endif
  return rows;
}

}  // namespace

std::vector<FabricRow> fabrics() {
  static const std::vector<FabricRow> rows = make_rows();
  return rows;
}

}  // namespace weft::fabric::testing
