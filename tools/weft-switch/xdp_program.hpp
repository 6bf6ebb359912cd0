#pragma once
// XdpProgram: a BPF program at an interface that redirects RoCEv2 packets to one MAC and IPv4
// address into sockets of AF_XDP, and passes everything else on to the kernel. It is loaded as
// instructions, without a compiler or a library, and goes with its descriptor: when the process
// ends, however it does, the interface is as before. It takes CAP_NET_ADMIN and CAP_BPF of the
// whole machine. One thread.
#include <cstdint>
#include <string>

#include "coll/switch/roce.hpp"
#include "weft/status.hpp"

namespace weft::innet {

class XdpProgram {
 public:
  XdpProgram() = default;
  ~XdpProgram();
  XdpProgram(const XdpProgram&) = delete;
  XdpProgram& operator=(const XdpProgram&) = delete;

  // Loads the program. not_permitted, unsupported: the reason is in the text.
  Status load(const Mac& mac, std::uint32_t ipv4, unsigned num_queues);
  // Packets of a queue without a socket are passed on to the kernel.
  Status set_socket(unsigned queue, int socket);
  // From now on packets are redirected: by the interface's driver, or else in the kernel's generic
  // mode, which every interface has. exists: another program is there.
  Status attach(unsigned interface, bool by_driver);

 private:
  int sockets_ = -1, program_ = -1, link_ = -1;
};

}  // namespace weft::innet
