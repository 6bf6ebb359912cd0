// A port by a queue pair of unreliable datagrams of the RDMA device that leads to the switch.
#include <algorithm>

#include "coll/offload/port.hpp"
#include "coll/switch/roce.hpp"
#include "fabric/verbs/datagrams.hpp"

namespace weft::offload {

using namespace innet;

namespace {

class VerbsPort final : public Port {
 public:
  VerbsPort(std::uint32_t own_ipv4, std::unique_ptr<verbs::Datagrams> datagrams)
      : ipv4_(own_ipv4), datagrams_(std::move(datagrams)) {}

  void send(std::span<const std::byte> packet) noexcept override { datagrams_->send(packet); }
  long receive(std::byte* room) noexcept override { return datagrams_->receive(room); }
  int descriptor() const noexcept override { return datagrams_->descriptor(); }
  Address own() const noexcept override { return {ipv4_}; }
  HostPort host_port() const override {
    HostPort port;
    port.mac = mac_of(ipv4_);
    verbs::write_gid(ipv4_, port.gid);
    port.queue_pair = datagrams_->queue_pair();
    port.queue_key = kRoceQueueKey;
    return port;
  }
  std::string kind() const override { return "a queue pair of " + datagrams_->device(); }

 private:
  std::uint32_t ipv4_;
  std::unique_ptr<verbs::Datagrams> datagrams_;
};

}  // namespace

std::unique_ptr<Port> open_verbs_port(std::uint32_t own_ipv4, const Address& tor, Status& status) {
  auto datagrams = verbs::open_datagrams(own_ipv4, {tor.ipv4, kSwitchQueuePair, kRoceQueueKey},
                                         kMaxPacketBytes, status);
  if (!status) return nullptr;
  return std::make_unique<VerbsPort>(own_ipv4, std::move(datagrams));
}

}  // namespace weft::offload
