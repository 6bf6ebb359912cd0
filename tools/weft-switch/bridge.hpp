#pragma once
// Bridge: an Ethernet switch in software that computes. Frames between its interfaces pass as
// through any switch (addresses are learned as in IEEE 802.1D); RoCEv2 packets addressed to its own
// IPv4 address are an Aggregator's. It answers ARP for that address and has no other protocol; in
// particular no spanning tree, so interfaces must not form loops.
//
// Trunks are the interfaces to other switches: no host on another interface is taken for a switch.
// A trunk may be configured not to forward: it then carries only packets between the switches
// themselves. A second link up must be such a trunk, as it would form a loop.
//
// Interfaces are AF_PACKET sockets, which need the capability CAP_NET_RAW. This
// switch's own packets may come and go by AF_XDP instead (xdp_port.hpp). One thread.
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "coll/switch/aggregator.hpp"
#include "coll/switch/roce.hpp"
#include "tools/weft-switch/xdp_port.hpp"
#include "weft/status.hpp"

namespace weft::innet {

// How this switch's own packets come and go: by AF_PACKET, by AF_XDP in the kernel's generic mode,
// or by AF_XDP in the interface's driver.
enum class Io { packet, xdp, xdp_driver };

struct BridgeCounters {
  std::uint64_t forwarded = 0, flooded = 0, taken = 0, not_roce = 0;
};

class Bridge final : public Wire {
 public:
  Bridge();
  ~Bridge();
  enum class Use { hosts, trunk, trunk_that_forwards };
  // Sets the address, before interfaces are added. The MAC address is derived from it, so that a
  // neighbour's entry for a switch stays valid after its restart.
  void set_address(std::uint32_t ipv4) noexcept;
  // not_found: there is no such interface; not_permitted; and of XDP unsupported, no_memory,
  // exists.
  Status add_interface(const std::string& name, Use use, Io io);
  const Mac& mac() const noexcept { return mac_; }

  // Sends to a host from which a packet has come, or to another switch; if it does not know the
  // destination it asks by ARP and drops the packet.
  void send(const Address& to, std::span<const std::byte> bytes) override;
  // Blocks until a frame is there, at most so long; forwards foreign frames, and passes on its own
  // packets.
  void receive(int timeout_ms,
               const std::function<void(const Address&, std::span<const std::byte>)>& take);
  const BridgeCounters& counters() const noexcept { return counters_; }

 private:
  struct Interface {
    int fd = -1;
    bool is_trunk = false, forwards = true;
    std::unique_ptr<XdpPort> xdp;
  };
  struct Neighbour {
    Mac mac{};
    std::uint16_t ingress = 0;
  };
  // The key of a neighbour: hosts by interface and IPv4 address, so that a host's claim about its
  // address on its own interface harms no other; switches by IPv4 address alone.
  static std::uint64_t key(std::uint32_t ipv4, std::uint16_t ingress) noexcept {
    return std::uint64_t{ingress} << 32 | ipv4;
  }

  using Take = std::function<void(const Address&, std::span<const std::byte>)>;
  static Status open_packet_socket(const std::string& name, Interface& interface);
  void receive_packets(std::uint16_t ingress, const Take& take);
  void take_frame(std::uint16_t ingress, std::span<std::byte> with_offload, const Take& take);
  void take_own(std::uint16_t ingress, std::span<const std::byte> frame, const Take& take);
  void learn(std::uint16_t ingress, const std::byte* mac);
  void take_arp(std::uint16_t ingress, std::span<const std::byte> frame);
  void ask_for(std::uint32_t ipv4);
  void meet(std::uint32_t ipv4, std::uint16_t ingress, const std::byte* mac, bool is_switch);
  void forward(std::uint16_t ingress, std::span<const std::byte> with_offload);
  void put(std::uint16_t interface, std::span<const std::byte> with_offload);

  std::vector<Interface> interfaces_;  // numbered from 1 in `ingress`
  Mac mac_{};
  std::uint32_t ipv4_ = 0;
  std::uint32_t sequence_ = 0;
  std::unordered_map<std::uint64_t, std::uint16_t> learned_;  // MAC to interface
  std::unordered_map<std::uint64_t, Neighbour> neighbours_;   // by key()
  std::unique_ptr<std::byte[]> room_;
  BridgeCounters counters_;
};

}  // namespace weft::innet
