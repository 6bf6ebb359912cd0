#pragma once
// Knock: asks a host whether a process there still listens. A host that is reached refuses
// connections to a port without a listener at once, and accepts others, whatever the listening
// process does meanwhile; one that is not reached says nothing. So three things that are all silent
// can be told apart: a process that has ended, one that is busy, and a network that fails. A
// firewall that rejects looks like a process that has ended.
//
// Nothing is sent: the connection is closed as soon as it is there. One thread at a time.
//
// Tests: tests/peer/states_test.cpp.
#include <cstdint>

#include "base/os/descriptor.hpp"
#include "fabric/endpoint.hpp"

namespace weft::transport {

class Knock {
 public:
  enum class Answer : std::uint8_t { none, listens, refused };

  // Begins to ask, unless it asks already. `listener`: the bytes of a sockaddr.
  void begin(fabric::Bytes listener, std::uint64_t now_ns) noexcept;
  // The answer, each once. none: not yet, or the host cannot be reached.
  Answer look(std::uint64_t now_ns) noexcept;
  bool is_asking() const noexcept { return static_cast<bool>(socket_); }

 private:
  Descriptor socket_;
  std::uint64_t began_ns_ = 0;
  bool is_refused_ = false;  // at once, as a host refuses itself
};

}  // namespace weft::transport
