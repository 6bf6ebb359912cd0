#pragma once
// A queue pair of unreliable datagrams (UD) with one other queue pair, over RoCE.
// Tests: tests/offload (as the port of allreduce in switches), tests/softroce.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/status.hpp"

namespace weft::verbs {

// The queue pair at the other end.
struct DatagramPeer {
  std::uint32_t ipv4 = 0;  // in the host's byte order
  std::uint32_t queue_pair = 0;
  std::uint32_t queue_key = 0;  // of both ends
};

// One thread at a time, except for send(): any.
class Datagrams {
 public:
  virtual ~Datagrams() = default;
  // At most the max_bytes of open_datagrams(). The datagram may be lost.
  virtual void send(std::span<const std::byte> datagram) noexcept = 0;
  // Reads the next datagram that has arrived into max_bytes + 1 bytes at `room`. Returns its
  // length, which is max_bytes + 1 for one that is too long; -1: none has arrived; 0: it is not the
  // peer's.
  virtual long receive(std::byte* room) noexcept = 0;
  // Readable when a datagram has arrived.
  virtual int descriptor() const noexcept = 0;
  virtual std::uint32_t queue_pair() const noexcept = 0;
  virtual const std::string& device() const noexcept = 0;
};

// The GID (16 bytes) of an IPv4 address.
void write_gid(std::uint32_t ipv4, std::span<std::uint8_t, 16> gid);

// Of the RDMA device whose address is own_ipv4. Null with the reason in `status`: not_found: there
// is no such device; unsupported: it gives no queue pair of datagrams.
std::unique_ptr<Datagrams> open_datagrams(std::uint32_t own_ipv4, const DatagramPeer& peer,
                                          std::size_t max_bytes, Status& status);

}  // namespace weft::verbs
