#pragma once
// A UDP socket as a switch's port, and as that of the tools that speak to switches. One thread.
#include <netinet/in.h>

#include <functional>

#include "coll/switch/aggregator.hpp"
#include "weft/status.hpp"

namespace weft::innet {

class UdpPort final : public Wire {
 public:
  ~UdpPort();
  // Port 0: one that is free. not_permitted, not_found: the address is not to be had here.
  Status open(const Address& address);
  int descriptor() const noexcept { return fd_; }
  Address address() const;
  void send(const Address& to, std::span<const std::byte> bytes) override;
  // Blocks until something is there, at most so long, and hands over all that is.
  void receive(int timeout_ms,
               const std::function<void(const Address&, std::span<const std::byte>)>& take);

 private:
  int fd_ = -1;
};

}  // namespace weft::innet
