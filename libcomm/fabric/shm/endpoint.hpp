#pragma once
// Shared memory between processes that know of each other only that they have met: the fabric "shm"
// of fabric/endpoint.hpp.
//
// A link is one sealed memfd that only these two have mapped, with a ring in each direction, and a
// socket pair. The socket wakes a sleeping side (by a byte, sent only when that side is armed), and
// its end shows that the peer has closed the link or died, after all it had sent. It is a socket
// and not an eventfd, as a hostile peer could make a write to a shared eventfd block.
//
// Memory from allocate() is a memfd of its own that peers map, read-only ones from a read-only
// descriptor; its pages are never used for anything else.
//
// Tests: tests/fabric/conformance_test.cpp.
#include <memory>

#include "fabric/endpoint.hpp"

namespace weft::fabric::shm {

std::unique_ptr<Endpoint> make_endpoint();

}  // namespace weft::fabric::shm
