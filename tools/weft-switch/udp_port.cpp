#include "tools/weft-switch/udp_port.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::innet {
namespace {

constexpr int kBatch = 32;
// Room for the packets of many hosts that arrive while this process does not run.
constexpr int kSocketBytes = 4 << 20;

sockaddr_in raw(const Address& address) noexcept {
  sockaddr_in raw{};
  raw.sin_family = AF_INET;
  raw.sin_port = htons(address.port);
  raw.sin_addr.s_addr = htonl(address.ipv4);
  return raw;
}

}  // namespace

UdpPort::~UdpPort() {
  if (fd_ >= 0) ::close(fd_);
}

Status UdpPort::open(const Address& address) {
  fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0)
    return {Code::no_memory, fmt::format("no UDP socket to be had: {}", std::strerror(errno))};
  (void)setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes);
  const sockaddr_in own = raw(address);
  if (bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
    return {Code::not_permitted,
            fmt::format("cannot listen at {}: {}; choose another address or port", text(address),
                        std::strerror(errno))};
  return {};
}

Address UdpPort::address() const {
  sockaddr_in own{};
  socklen_t length = sizeof own;
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &length) != 0) return {};
  return {ntohl(own.sin_addr.s_addr), ntohs(own.sin_port)};
}

void UdpPort::send(const Address& to, std::span<const std::byte> bytes) {
  const sockaddr_in other = raw(to);
  // A packet that cannot be sent is lost, as on any wire.
  (void)sendto(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&other), sizeof other);
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
    sockaddr_in from[kBatch];
    for (int i = 0; i < kBatch; ++i) {
      parts[i] = {memory[i], sizeof memory[i]};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      messages[i].msg_hdr.msg_name = &from[i];
      messages[i].msg_hdr.msg_namelen = sizeof from[i];
    }
    const int count = recvmmsg(fd_, messages, kBatch, MSG_DONTWAIT, nullptr);
    for (int i = 0; i < count; ++i)
      take({ntohl(from[i].sin_addr.s_addr), ntohs(from[i].sin_port)},
           {memory[i], messages[i].msg_len});
    if (count < kBatch) return;
  }
}

}  // namespace weft::innet
