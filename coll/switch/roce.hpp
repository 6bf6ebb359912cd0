#pragma once
// RoCEv2 packets of unreliable datagrams around the packets of packet.hpp: IPv4, UDP to port 4791,
// BTH (opcode 0x64), DETH, the packet, padding to four bytes, ICRC (InfiniBand Architecture
// Specification, volume 1, chapter 9 and annex A17). Packets read are untrusted: everything is
// checked, the ICRC last. Pure functions; any thread.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "coll/switch/packet.hpp"

namespace weft::innet {

inline constexpr std::uint16_t kRocePort = 4791;
// The Q_Key of every switch and of the hosts that use it: Q_Keys keep foreign packets out of a
// queue pair, but this one is publicly known.
inline constexpr std::uint32_t kRoceQueueKey = 0x57454654;
// The queue pair at which switches receive packets.
inline constexpr std::uint32_t kSwitchQueuePair = 0x005746;
inline constexpr std::uint16_t kPartitionKey = 0xffff;  // the default partition

inline constexpr std::size_t kIpUdpBytes = 28;
inline constexpr std::size_t kRoceHeadBytes = kIpUdpBytes + 12 + 8;
inline constexpr std::size_t kIcrcBytes = 4;
inline constexpr std::size_t kMaxRoceBytes = kRoceHeadBytes + kMaxPacketBytes + kIcrcBytes;
inline constexpr std::size_t kEthernetBytes = 14;

using Mac = std::array<std::uint8_t, 6>;

struct RoceHeader {
  std::uint32_t from_ipv4 = 0, to_ipv4 = 0;  // host order, as all here
  std::uint16_t from_port = 0;               // UDP's; spreads flows over links
  std::uint32_t from_queue_pair = 0, to_queue_pair = 0;
  std::uint32_t queue_key = kRoceQueueKey;
  std::uint32_t sequence = 0;  // 24 bits
  bool operator==(const RoceHeader&) const = default;
};

struct RocePacket {
  RoceHeader header;
  std::span<const std::byte> payload;
};

// Writes a packet from the IPv4 header on; returns its length. `payload`: at most kMaxPacketBytes.
std::size_t write_roce(std::span<std::byte> out, const RoceHeader& header,
                       std::span<const std::byte> payload) noexcept;
// nullopt: not such a packet, or its ICRC is wrong. Bytes after the packet, such as Ethernet's
// padding, are ignored.
std::optional<RocePacket> read_roce(std::span<const std::byte> bytes) noexcept;

}  // namespace weft::innet
