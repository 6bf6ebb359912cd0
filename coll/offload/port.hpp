#pragma once
// Port: how a leader's packets reach its switch and come back: unreliable datagrams to one address.
// By UDP; or, where the switch's port is 4791, as RoCEv2 packets: of a queue pair of the RDMA
// device that has this side's address, or, where there is none, of this process's own making and
// through a raw socket (CAP_NET_RAW). One thread at a time, but send() from any.
#include <array>
#include <memory>
#include <span>
#include <string>

#include "coll/switch/packet.hpp"
#include "weft/status.hpp"

namespace weft::offload {

class Port {
 public:
  virtual ~Port() = default;
  // May lose it.
  virtual void send(std::span<const std::byte> packet) noexcept = 0;
  // The next packet that is here, into kMaxPacketBytes + 1 at `room`; its length, which is more
  // than kMaxPacketBytes for what is too long. -1: none. 0: what came was none.
  virtual long receive(std::byte* room) noexcept = 0;
  // Readable when something is here.
  virtual int descriptor() const noexcept = 0;
  // This side's IPv4 address on the way to the switch.
  virtual std::uint32_t ipv4() const noexcept = 0;
  // What a query says of it.
  virtual innet::HostPort host_port() const = 0;
  // What it is, for messages.
  virtual std::string kind() const = 0;
};

// Null: `status` says why. no_memory, not_found: no way to the switch; not_permitted.
std::unique_ptr<Port> open_port(const innet::Address& tor, Status& status);

// Of the interface with this address; zeros: there is none, or it has none.
std::array<std::uint8_t, 6> mac_of(std::uint32_t ipv4);

// By the RDMA device with this address (verbs_port.cpp). not_found: there is none; unsupported.
std::unique_ptr<Port> open_verbs_port(std::uint32_t own_ipv4, const innet::Address& tor,
                                      Status& status);

}  // namespace weft::offload
