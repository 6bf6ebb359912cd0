#pragma once
// XdpPort: RoCEv2 packets to one MAC and IPv4 address at an interface, past the kernel's network
// stack: an XdpProgram and an XdpSocket for each of the interface's queues. All other frames are
// the kernel's as before. What it sends passes neither queueing disciplines nor captures. One
// thread.
#include <memory>
#include <string>
#include <vector>

#include "tools/weft-switch/xdp_program.hpp"
#include "tools/weft-switch/xdp_socket.hpp"

namespace weft::innet {

class XdpPort {
 public:
  // On failure the reason is in the text, and the interface as before.
  Status open(const std::string& interface, const Mac& mac, std::uint32_t ipv4, bool by_driver);
  const std::vector<std::unique_ptr<XdpSocket>>& sockets() const noexcept { return sockets_; }
  // The one that sends.
  XdpSocket& out() noexcept { return *sockets_[0]; }

 private:
  std::vector<std::unique_ptr<XdpSocket>> sockets_;  // by queue
  XdpProgram program_;
};

}  // namespace weft::innet
