#pragma once
// The fabric "verbs" of fabric/endpoint.hpp: one RDMA port, a reliable queue pair for each link.
//
// Links are made by librdmacm, at an id that listens at the port's own IP address: address() is
// that, with its port. Messages travel by SEND into one receive queue that all links share; how
// many a peer may have under way is its credit, so a queue that is full never stops the device.
// Puts, gets and atomics are the device's own.
//
// A key covers what it was made for, and the device checks it. It is no secret from those who have
// a link: a peer that is let in and forges keys may reach what others were given.
#include <memory>

#include "base/settings.hpp"
#include "fabric/endpoint.hpp"

namespace weft::fabric::verbs {

// not_found: no device, or none that is usable; unsupported, no_memory: what the device does not
// give. The text says what to do.
Status make_endpoint(const Settings& settings, std::unique_ptr<Endpoint>& endpoint);

}  // namespace weft::fabric::verbs
