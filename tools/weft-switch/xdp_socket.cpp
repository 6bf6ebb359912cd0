#include "tools/weft-switch/xdp_socket.hpp"

#include <fmt/core.h>
#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace weft::innet {
namespace {

constexpr std::uint64_t kFrameBytes = 2048;  // the longest packet of the protocol, and headroom
constexpr std::uint32_t kFrames = 2048;      // each way
constexpr std::uint32_t kMask = kFrames - 1;
constexpr std::size_t kMemoryBytes = 2 * kFrames * kFrameBytes;
constexpr int kSendBytes = 8 << 20;

// The numbers of rings are shared with the kernel, which writes the other one of each pair.
std::uint32_t acquire(std::uint32_t* number) noexcept {
  return std::atomic_ref(*number).load(std::memory_order_acquire);
}
void release(std::uint32_t* number, std::uint32_t value) noexcept {
  std::atomic_ref(*number).store(value, std::memory_order_release);
}
bool needs_wakeup(std::uint32_t* flags) noexcept {
  return std::atomic_ref(*flags).load(std::memory_order_relaxed) & XDP_RING_NEED_WAKEUP;
}

Status socket_failure(const char* what) {
  const int error = errno;
  if (error == ENOBUFS || error == ENOMEM)
    return {Code::no_memory, fmt::format("{}: {}; it locks {} KiB for each queue (ulimit -l)", what,
                                         std::strerror(error), kMemoryBytes / 1024)};
  if (error == EPERM)
    return {Code::not_permitted,
            fmt::format("{}: {}; it takes CAP_NET_RAW", what, std::strerror(error))};
  return {Code::unsupported, fmt::format("{}: {}", what, std::strerror(error))};
}

}  // namespace

XdpSocket::~XdpSocket() {
  for (const Ring* ring : {&receive_, &fill_, &send_, &completed_})
    if (ring->mapping != nullptr) munmap(ring->mapping, ring->mapped_bytes);
  if (fd_ >= 0) ::close(fd_);
  if (memory_ != nullptr) munmap(memory_, kMemoryBytes);
}

bool XdpSocket::map(Ring& ring, const void* offsets, std::uint64_t page,
                    std::size_t entry_bytes) noexcept {
  xdp_ring_offset at;
  std::memcpy(&at, offsets, sizeof at);
  ring.mapped_bytes = at.desc + kFrames * entry_bytes;
  void* mapping = mmap(nullptr, ring.mapped_bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_POPULATE, fd_, static_cast<off_t>(page));
  if (mapping == MAP_FAILED) return false;
  ring.mapping = mapping;
  auto* bytes = static_cast<std::byte*>(mapping);
  ring.producer = reinterpret_cast<std::uint32_t*>(bytes + at.producer);
  ring.consumer = reinterpret_cast<std::uint32_t*>(bytes + at.consumer);
  ring.flags = reinterpret_cast<std::uint32_t*>(bytes + at.flags);
  ring.entries = bytes + at.desc;
  return true;
}

Status XdpSocket::open(unsigned interface, unsigned queue, bool by_driver) {
  fd_ = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return socket_failure("no AF_XDP socket to be had");
  void* memory =
      mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return socket_failure("no memory for frames");
  memory_ = static_cast<std::byte*>(memory);
  xdp_umem_reg frames{};
  frames.addr = reinterpret_cast<std::uintptr_t>(memory);
  frames.len = kMemoryBytes;
  frames.chunk_size = kFrameBytes;
  if (setsockopt(fd_, SOL_XDP, XDP_UMEM_REG, &frames, sizeof frames) != 0)
    return socket_failure("the kernel does not take memory for frames");
  for (const int ring : {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING})
    if (setsockopt(fd_, SOL_XDP, ring, &kFrames, sizeof kFrames) != 0)
      return socket_failure("no ring of frames to be had");
  xdp_mmap_offsets offsets{};
  socklen_t length = sizeof offsets;
  if (getsockopt(fd_, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) != 0 ||
      length != sizeof offsets ||
      !map(fill_, &offsets.fr, XDP_UMEM_PGOFF_FILL_RING, sizeof(std::uint64_t)) ||
      !map(completed_, &offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, sizeof(std::uint64_t)) ||
      !map(receive_, &offsets.rx, XDP_PGOFF_RX_RING, sizeof(xdp_desc)) ||
      !map(send_, &offsets.tx, XDP_PGOFF_TX_RING, sizeof(xdp_desc)))
    return socket_failure("the rings of frames cannot be mapped");
  // The first half of the frames is for receiving, the second for sending.
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    static_cast<std::uint64_t*>(fill_.entries)[i] = i * kFrameBytes;
    free_.push_back((kFrames + i) * kFrameBytes);
  }
  release(fill_.producer, kFrames);
  // What is sent counts until its receiver has it: as much as all frames, if this may be set.
  if (setsockopt(fd_, SOL_SOCKET, SO_SNDBUFFORCE, &kSendBytes, sizeof kSendBytes) != 0)
    (void)setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &kSendBytes, sizeof kSendBytes);
  sockaddr_xdp own{};
  own.sxdp_family = AF_XDP;
  own.sxdp_ifindex = interface;
  own.sxdp_queue_id = queue;
  // In generic mode no frame would come from rings that a driver has.
  own.sxdp_flags = static_cast<std::uint16_t>(XDP_USE_NEED_WAKEUP | (by_driver ? 0 : XDP_COPY));
  if (bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
    return socket_failure("an AF_XDP socket cannot be bound to the interface");
  return {};
}

std::uint32_t XdpSocket::num_received() const noexcept {
  return acquire(receive_.producer) - *receive_.consumer;
}

std::span<std::byte> XdpSocket::received(std::uint32_t index) const noexcept {
  const auto* entries = static_cast<const xdp_desc*>(receive_.entries);
  const xdp_desc& entry = entries[(*receive_.consumer + index) & kMask];
  return {memory_ + entry.addr, entry.len};
}

void XdpSocket::give_back(std::uint32_t count) noexcept {
  if (count == 0) return;
  const auto* entries = static_cast<const xdp_desc*>(receive_.entries);
  const std::uint32_t first = *receive_.consumer, to = *fill_.producer;
  // There is room: the kernel has taken each of these from that ring.
  for (std::uint32_t i = 0; i < count; ++i)
    static_cast<std::uint64_t*>(fill_.entries)[(to + i) & kMask] =
        entries[(first + i) & kMask].addr & ~(kFrameBytes - 1);
  release(receive_.consumer, first + count);
  release(fill_.producer, to + count);
  if (needs_wakeup(fill_.flags)) (void)recvfrom(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

std::span<std::byte> XdpSocket::room() noexcept {
  if (free_.empty()) {
    const std::uint32_t end = acquire(completed_.producer);
    for (std::uint32_t i = *completed_.consumer; i != end; ++i)
      free_.push_back(static_cast<const std::uint64_t*>(completed_.entries)[i & kMask]);
    release(completed_.consumer, end);
  }
  if (free_.empty()) return {};
  return {memory_ + free_.back(), kFrameBytes};
}

void XdpSocket::send(std::size_t bytes) noexcept {
  xdp_desc& entry = static_cast<xdp_desc*>(send_.entries)[num_sent_++ & kMask];
  entry = {free_.back(), static_cast<std::uint32_t>(bytes), 0};
  free_.pop_back();
}

void XdpSocket::flush() noexcept {
  std::uint32_t sent = acquire(send_.consumer);
  if (sent == num_sent_) return;
  release(send_.producer, num_sent_);
  // The kernel sends some frames a call, up to one that is dropped. If it sends none the device has
  // no room, and the rest follows with the next flush.
  while (needs_wakeup(send_.flags) && sendto(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0) {
    const std::uint32_t before = sent;
    sent = acquire(send_.consumer);
    if (sent == before || sent == num_sent_) return;
  }
}

}  // namespace weft::innet
