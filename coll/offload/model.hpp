#pragma once
// Whether a switch is faster than the hosts. A pure function; any thread.
#include <cstddef>

namespace weft::offload {

struct Size {
  int leaders = 1;
  int members = 1;  // of a leader, at most
  bool by_socket = false;
  std::size_t bytes = 0;
};

// By the paper's tables 4 to 6, whose longest vector has 256 bytes: hosts exchange log2(nodes)
// times what the switch does once, and leaders by node, not by socket, pay for both sockets'
// processes.
bool offload_wins(const Size& size) noexcept;

}  // namespace weft::offload
