#pragma once
// The fabric "ofi" of fabric/endpoint.hpp, over libfabric's reliable datagram endpoints (TCP, EFA
// and others). Puts and gets are the provider's where a device does them (providers.hpp), else they
// go by target-side emulation.
//
// Links are identified by a random token that each side chooses and the other sends along, as any
// process that reaches the endpoint can send to it.
//
// Tests: tests/fabric/conformance_test.cpp.
#include <memory>

#include "base/settings.hpp"
#include "fabric/endpoint.hpp"

namespace weft::fabric::ofi {

// Errors as weft::ofi::Offers::find().
Status make_endpoint(const Settings& settings, std::unique_ptr<Endpoint>& endpoint);

}  // namespace weft::fabric::ofi
