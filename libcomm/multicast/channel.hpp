#pragma once
// Channel: datagrams from the root of a group to its receivers, which the network copies. Each
// comes whole or not at all, in any order, perhaps more than once, and may be of anybody.
//
// Threads: one at a time.
#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "peer/sockets.hpp"
#include "weft/status.hpp"

namespace weft::mcast {

// The group that datagrams go to, and where.
struct ChannelAddress {
  peer::SocketAddress group;  // an IP multicast address with its port
  peer::SocketAddress local;  // of the interface towards the other members
};

class Channel {
 public:
  struct Datagram {
    std::span<const std::byte> head, body;  // sent one after the other
  };
  Channel() = default;
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;

  // Bytes of the longest datagram.
  virtual std::size_t datagram_max() const noexcept = 0;
  // Longest datagrams that can wait here for receive(), at least.
  virtual std::size_t room() const noexcept = 0;
  // At the root. Returns how many of the datagrams, from the first, are on their way. Fewer than
  // all: `status` has the reason. again: the queue is full, and waits_for() tells when it no longer
  // is; no_memory: it is, and time tells; others: nothing can be sent.
  virtual std::size_t send(std::span<const Datagram> datagrams, Status& status) = 0;
  // At receivers. False: nothing has come. `datagram` is valid until the next call.
  virtual bool receive(std::span<const std::byte>& datagram) = 0;
  // For poll(): at receivers, after receive() had nothing, that a datagram has come; at the root,
  // after send() returned again, that the queue has room.
  virtual pollfd waits_for() const noexcept = 0;
};

// By IP multicast over UDP. Errors: the interface, or the kernel, has no multicast; the address is
// none, or in use by a program that does not share it.
WEFT_API Status open_udp_channel(const ChannelAddress& address, bool is_root,
                                 std::unique_ptr<Channel>& channel);
// By unreliable datagrams (UD) of InfiniBand or RoCE v2, from and to registered memory of the
// channel, without the kernel. Takes at most a second. Errors: no device has the interface's
// address; it, the connection manager or the subnet manager refuses; too little memory may be
// locked.
WEFT_API Status open_ud_channel(const ChannelAddress& address, bool is_root,
                                std::unique_ptr<Channel>& channel);

// Without their ports.
WEFT_API bool is_same_host(const peer::SocketAddress& one, const peer::SocketAddress& other);
// The address of the interface that leads to `other`.
WEFT_API Status local_towards(const peer::SocketAddress& other, peer::SocketAddress& local);

// `text`: "239.1.2.3", "239.1.2.3:5000", "ff15::1" or "[ff15::1]:5000"; without a port, or empty,
// the rest follows from `seed`: administratively scoped addresses (RFC 2365, RFC 7346) of the
// family of `local`, and a port of those that nobody has registered (RFC 6335). bad_argument.
WEFT_API Status multicast_address(const std::string& text, const peer::SocketAddress& local,
                                  std::span<const std::uint8_t, 16> seed,
                                  peer::SocketAddress& address);

}  // namespace weft::mcast
