#pragma once
// The fabric "tcp" of fabric/endpoint.hpp: a connection for each link, over sockets. Puts and gets
// are done by the owner of the memory, in its poll(), from and into the memory itself; atomics go
// by target-side emulation.
//
// Tests: tests/fabric/conformance_test.cpp, tests/fabric/tcp_test.cpp.
#include <memory>
#include <string>

#include "base/settings.hpp"
#include "fabric/endpoint.hpp"
#include "fabric/inspection.hpp"

namespace weft::fabric::tcp {

// Errors as find_interfaces() (sockets.hpp).
Status make_endpoint(const Settings& settings, std::unique_ptr<Endpoint>& endpoint);

// For weft-info: the interface that these settings choose, and the others.
std::string describe(const Settings& settings);
void inspect(const Settings& settings, Inspection& inspection);

}  // namespace weft::fabric::tcp
