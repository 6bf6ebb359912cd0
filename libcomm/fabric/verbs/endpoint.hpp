#pragma once
// The fabric "verbs" of fabric/endpoint.hpp: one RDMA port, a reliable queue pair for each link.
//
// Links are made by librdmacm, at an id that listens at the port's own IP address: address() is
// that, with its port. Messages travel by SEND into one receive queue that all links share; credit
// limits how many a peer may have under way, so a full queue never stops the device. Puts, gets and
// atomics are the device's own.
//
// A key covers what it was made for, and the device checks it. It is no secret from peers with a
// link: a peer that is let in and forges keys may reach what others were given.
//
// Tests: tests/fabric/conformance_test.cpp, tests/fabric/verbs_endpoint_test.cpp.
#include <memory>

#include "base/settings.hpp"
#include "fabric/endpoint.hpp"

namespace weft::fabric::verbs {

// not_found: no device, or none that is usable; unsupported, no_memory: the device lacks a feature
// or resource. The text says what to do.
Status make_endpoint(const Settings& settings, std::unique_ptr<Endpoint>& endpoint);

}  // namespace weft::fabric::verbs
