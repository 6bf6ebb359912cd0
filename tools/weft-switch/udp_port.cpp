#include "tools/weft-switch/udp_port.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "coll/switch/socket_address.hpp"

namespace weft::innet {
namespace {

constexpr int kBatch = 32;
// Room for the packets of many hosts that arrive while this process does not run.
constexpr int kSocketBytes = 4 << 20;

}  // namespace

UdpPort::~UdpPort() {
  if (fd_ >= 0) ::close(fd_);
}

Status UdpPort::open(const Address& address) {
  family_ = family_of(address);
  fd_ = socket(family_, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0)
    return {Code::no_memory, fmt::format("no UDP socket to be had: {}", std::strerror(errno))};
  (void)setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes);
  // At [::] a switch is there for IPv4 too.
  const int off = 0;
  if (address.is_ipv6) (void)setsockopt(fd_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const SocketAddress own = to_socket(address, family_);
  if (bind(fd_, &own.any, own.bytes) != 0)
    return {Code::not_permitted,
            fmt::format("cannot listen at {}: {}; choose another address or port", text(address),
                        std::strerror(errno))};
  return {};
}

Address UdpPort::address() const { return own_address(fd_); }

void UdpPort::send(const Address& to, std::span<const std::byte> bytes) {
  const SocketAddress other = to_socket(to, family_);
  // A packet that cannot be sent is lost, as on any wire.
  (void)sendto(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT, &other.any, other.bytes);
}

void UdpPort::receive(int timeout_ms,
                      const std::function<void(const Address&, std::span<const std::byte>)>& take) {
  pollfd readable{fd_, POLLIN, 0};
  if (poll(&readable, 1, timeout_ms) <= 0) return;
  // One byte more than a packet may have, so that longer ones are recognized.
  static thread_local std::byte memory[kBatch][kMaxPacketBytes + 1];
  for (;;) {
    mmsghdr messages[kBatch]{};
    iovec parts[kBatch];
    SocketAddress from[kBatch];
    for (int i = 0; i < kBatch; ++i) {
      parts[i] = {memory[i], sizeof memory[i]};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      messages[i].msg_hdr.msg_name = &from[i].any;
      messages[i].msg_hdr.msg_namelen = from[i].bytes;
    }
    const int count = recvmmsg(fd_, messages, kBatch, MSG_DONTWAIT, nullptr);
    for (int i = 0; i < count; ++i) take(from_socket(from[i]), {memory[i], messages[i].msg_len});
    if (count < kBatch) return;
  }
}

}  // namespace weft::innet
