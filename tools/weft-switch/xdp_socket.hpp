#pragma once
// XdpSocket: frames of one queue of an interface by AF_XDP: rings in memory shared with the kernel,
// one system call for a batch of frames sent and none for those received. Frames come from an
// XdpProgram that has the socket; the kernel copies each, unless a driver can write to these
// rings. One thread. Source: Documentation/networking/af_xdp.rst of Linux.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/status.hpp"

namespace weft::innet {

class XdpSocket {
 public:
  XdpSocket() = default;
  ~XdpSocket();
  XdpSocket(const XdpSocket&) = delete;
  XdpSocket& operator=(const XdpSocket&) = delete;

  // no_memory, not_permitted, unsupported: the reason is in the text.
  Status open(unsigned interface, unsigned queue, bool by_driver);
  // Readable when a frame is there.
  int descriptor() const noexcept { return fd_; }

  // Passes on the frames that are there, at most `most`. They are gone afterwards.
  template <class Take>
  void receive(std::uint32_t most, Take&& take) {
    const std::uint32_t count = std::min(most, num_received());
    for (std::uint32_t i = 0; i < count; ++i) take(received(i));
    give_back(count);
  }

  // Room for a frame to be written; empty if all are under way.
  std::span<std::byte> room() noexcept;
  // Sends the frame that was written there, with the next flush().
  void send(std::size_t bytes) noexcept;
  void flush() noexcept;

 private:
  // A ring of power-of-two size: one side advances the producer's number, the other the consumer's.
  struct Ring {
    std::uint32_t *producer = nullptr, *consumer = nullptr, *flags = nullptr;
    void* entries = nullptr;
    void* mapping = nullptr;
    std::size_t mapped_bytes = 0;
  };

  bool map(Ring& ring, const void* offsets, std::uint64_t page, std::size_t entry_bytes) noexcept;
  std::uint32_t num_received() const noexcept;
  std::span<std::byte> received(std::uint32_t index) const noexcept;
  void give_back(std::uint32_t count) noexcept;

  int fd_ = -1;
  std::byte* memory_ = nullptr;
  Ring receive_, fill_, send_, completed_;
  std::vector<std::uint64_t> free_;  // frames to write to
  std::uint32_t num_sent_ = 0;       // written to the ring, of which the kernel may not know yet
};

}  // namespace weft::innet
