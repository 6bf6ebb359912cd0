#pragma once
// Port: sends a leader's packets to its switch and receives the answers: unreliable datagrams to
// one address. By UDP; or, where the switch's port is 4791, as RoCEv2 packets: from a queue pair of
// the RDMA device that has this side's address, or, without one, from a queue pair that this
// process emulates through a raw socket (CAP_NET_RAW). One thread at a time, except for send():
// any.
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
  // The packet may be lost.
  virtual void send(std::span<const std::byte> packet) noexcept = 0;
  // Reads the next packet that has arrived into kMaxPacketBytes + 1 bytes at `room`. Returns its
  // length, which is more than kMaxPacketBytes for one that is too long; -1: no packet; 0: a
  // datagram that is not a packet for this port.
  virtual long receive(std::byte* room) noexcept = 0;
  // Readable when a packet is there.
  virtual int descriptor() const noexcept = 0;
  // This side's address on the route to the switch; its port is 0.
  virtual innet::Address own() const noexcept = 0;
  // This port, as a query reports it.
  virtual innet::HostPort host_port() const = 0;
  // The kind of port, for messages to users.
  virtual std::string kind() const = 0;
};

// Returns null with the reason in `status`: no_memory; not_found: no route to the switch;
// not_permitted.
std::unique_ptr<Port> open_port(const innet::Address& tor, Status& status);

// The MAC address of the interface with this IPv4 address; zeros if there is none.
std::array<std::uint8_t, 6> mac_of(std::uint32_t ipv4);

// A port of the RDMA device with this address (verbs_port.cpp). not_found: there is none;
// unsupported: it has no queue pairs of datagrams.
std::unique_ptr<Port> open_verbs_port(std::uint32_t own_ipv4, const innet::Address& tor,
                                      Status& status);

}  // namespace weft::offload
