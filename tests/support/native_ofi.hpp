#pragma once
// Endpoints of the fabric ofi whose provider does puts, gets and atomics by itself, also where Weft
// would not let it.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "fabric/endpoint.hpp"
#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/messages.hpp"
#include "tests/support/process.hpp"

namespace weft::testing {

// Those that a machine without devices may have. OFI_PROVIDER_IN_TEST: that alone.
inline const std::vector<std::string> kNativeProviders = [] {
  const char* only = std::getenv("OFI_PROVIDER_IN_TEST");
  if (only != nullptr) return std::vector<std::string>{only};
  return std::vector<std::string>{"shm", "tcp;ofi_rxm", "sockets"};
}();

// Returns true if this one needs no processor of the owner's, as devices do not.
inline bool is_without_owner(const std::string& provider) {
  return !provider.starts_with("tcp") && provider != "sockets";
}

// OFI_NATIVE_IN_TEST in the environment: all endpoints of this process are such.
[[maybe_unused]] inline const bool kAllAreNative = [] {
  const bool are = std::getenv("OFI_NATIVE_IN_TEST") != nullptr;
  if (are) weft::ofi::force_one_sided(true);
  return are;
}();

inline Settings ofi_settings(const std::string& provider) {
  Settings settings;
  REQUIRE(settings.set("OFI_PROVIDER", provider).ok());
  if (!is_without_owner(provider)) REQUIRE(settings.set("INTERFACE", "lo").ok());
  return settings;
}

inline bool has_ofi_provider(const std::string& provider) {
  weft::ofi::Offers offers;
  return offers.find(ofi_settings(provider)).ok();
}

inline std::unique_ptr<fabric::Endpoint> make_ofi(const std::string& provider, bool is_native) {
  std::unique_ptr<fabric::Endpoint> endpoint;
  weft::ofi::force_one_sided(is_native);
  const Status status = fabric::ofi::make_endpoint(ofi_settings(provider), endpoint);
  weft::ofi::force_one_sided(kAllAreNative);
  INFO(provider << ": " << status.text());
  REQUIRE(status.ok());
  return endpoint;
}

// What a process that runs one of these tests prints behind this word, beside what Catch does.
inline std::string line_of(Process& process, const std::string& word) {
  for (int num_lines = 1; num_lines < 9; ++num_lines) {
    REQUIRE(process.wait_for_lines(num_lines));
    const std::size_t at = process.out().find(word);
    const std::size_t end = process.out().find('\n', at);
    if (at != std::string::npos && end != std::string::npos)
      return process.out().substr(at + word.size(), end - at - word.size());
  }
  FAIL("no line with '" << word << "': " << process.out());
  return {};
}

// By a signal at which libfabric removes what its shm has in /dev/shm.
inline void end_owner(Process& process) {
  process.signal(SIGCONT);
  process.signal(SIGTERM);
  CHECK(process.wait() == 128 + SIGTERM);
}

}  // namespace weft::testing
