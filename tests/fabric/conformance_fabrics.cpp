// The fabrics of the conformance suite: a row each. WEFT_TEST_FABRIC=verbs: that alone, which must
// be there; otherwise it is tested where there is a device. WEFT_TEST_FABRIC=ofi likewise.
#include <cstdlib>
#include <iostream>

#include "fabric/shm/endpoint.hpp"
#include "fabric/tcp/endpoint.hpp"
#include "tests/support/loopback/loopback.hpp"
#ifdef WEFT_HAVE_OFI
#include "fabric/ofi/messages.hpp"
#include "tests/support/native_ofi.hpp"
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

#ifdef WEFT_HAVE_OFI
// WEFT_TEST_FABRIC=ofi: over the provider of WEFT_OFI_PROVIDER alone, as it is.
FabricRow ofi_of_this_machine() {
  const char* provider = std::getenv("WEFT_OFI_PROVIDER");
  return {"ofi", [provider] {
            Settings settings;
            std::unique_ptr<Endpoint> endpoint;
            if (provider != nullptr) REQUIRE(settings.set("OFI_PROVIDER", provider).ok());
            const Status status = ofi::make_endpoint(settings, endpoint);
            INFO(status.text());
            REQUIRE(status.ok());
            return endpoint;
          }};
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
#ifdef WEFT_HAVE_OFI
  if (only != nullptr && std::string(only) == "ofi") return {ofi_of_this_machine()};
#endif
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
    // The sanitizers would look at libfabric's own copies, too.
#if defined(WEFT_HAVE_OFI) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  for (const std::string& provider : weft::testing::kNativeProviders) {
    if (!weft::testing::has_ofi_provider(provider)) {
      std::cout << "skipped: ofi: libfabric has no " << provider << '\n';
      continue;
    }
    rows.push_back(
        {"ofi, by " + provider, [provider] { return weft::testing::make_ofi(provider, true); }});
    if (provider == "shm") rows.back().refuses_nothing = "libfabric's shm looks at no key";
  }
#endif
  return rows;
}

}  // namespace

std::vector<FabricRow> fabrics() {
  static const std::vector<FabricRow> rows = make_rows();
  return rows;
}

}  // namespace weft::fabric::testing
