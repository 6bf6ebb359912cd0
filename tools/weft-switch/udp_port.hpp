#pragma once
// A UDP socket as the port of a switch, and of the tools that speak to switches. One thread.
#include <functional>

#include "coll/switch/aggregator.hpp"
#include "weft/status.hpp"

namespace weft::innet {

class UdpPort final : public Wire {
 public:
  ~UdpPort();
  // Port 0: any free one. not_permitted, not_found: the address cannot be used here.
  Status open(const Address& address);
  int descriptor() const noexcept { return fd_; }
  Address address() const;
  void send(const Address& to, std::span<const std::byte> bytes) override;
  // Blocks until a packet is there, at most so long, and passes on all that are.
  void receive(int timeout_ms,
               const std::function<void(const Address&, std::span<const std::byte>)>& take);

 private:
  int fd_ = -1, family_ = 0;
};

}  // namespace weft::innet
