#include "coll/switch/roce.hpp"

#include <cstring>

#include "coll/switch/icrc.hpp"

namespace weft::innet {
namespace {

constexpr std::uint8_t kUdSendOnly = 0x64;
constexpr std::uint8_t kUdp = 17;

void put(std::byte* to, std::uint64_t value, std::size_t bytes) noexcept {
  for (std::size_t i = bytes; i-- > 0; value >>= 8) to[i] = static_cast<std::byte>(value);
}
std::uint32_t get(const std::byte* from, std::size_t bytes) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<std::uint32_t>(from[i]);
  return value;
}

std::uint16_t ip_checksum(const std::byte* header) noexcept {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 20; i += 2) sum += get(header + i, 2);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

std::size_t write_roce(std::span<std::byte> out, const RoceHeader& header,
                       std::span<const std::byte> payload) noexcept {
  const std::size_t pad = (4 - payload.size() % 4) % 4;
  const std::size_t covered = kRoceHeadBytes + payload.size() + pad, total = covered + kIcrcBytes;
  if (payload.size() > kMaxPacketBytes || out.size() < total) return 0;
  std::byte* ip = out.data();
  std::memset(ip, 0, kRoceHeadBytes);
  put(ip, 0x45, 1);
  put(ip + 2, total, 2);
  put(ip + 4, 1, 2);       // not 0, which the kernel would replace
  put(ip + 6, 0x4000, 2);  // not to be fragmented
  put(ip + 8, 64, 1);
  put(ip + 9, kUdp, 1);
  put(ip + 12, header.from_ipv4, 4);
  put(ip + 16, header.to_ipv4, 4);
  put(ip + 10, ip_checksum(ip), 2);
  std::byte* udp = ip + 20;
  put(udp, header.from_port, 2);
  put(udp + 2, kRocePort, 2);
  put(udp + 4, total - 20, 2);  // the checksum stays 0, as ICRC is there
  std::byte* bth = udp + 8;
  put(bth, kUdSendOnly, 1);
  put(bth + 1, pad << 4, 1);
  put(bth + 2, kPartitionKey, 2);
  put(bth + 5, header.to_queue_pair, 3);
  put(bth + 9, header.sequence, 3);
  std::byte* deth = bth + 12;
  put(deth, header.queue_key, 4);
  put(deth + 5, header.from_queue_pair, 3);
  if (!payload.empty()) std::memcpy(deth + 8, payload.data(), payload.size());
  std::memset(deth + 8 + payload.size(), 0, pad);
  const std::uint32_t crc = icrc({ip, covered});
  std::memcpy(ip + covered, &crc, 4);  // little-endian, as Ethernet's
  return total;
}

std::optional<RocePacket> read_roce(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < kRoceHeadBytes + kIcrcBytes) return std::nullopt;
  const std::byte* ip = bytes.data();
  const std::size_t total = get(ip + 2, 2);
  // No options, no fragments.
  if (get(ip, 1) != 0x45 || (get(ip + 6, 2) & 0x3fff) != 0 || get(ip + 9, 1) != kUdp ||
      total > bytes.size() || total < kRoceHeadBytes + kIcrcBytes)
    return std::nullopt;
  const std::byte* udp = ip + 20;
  if (get(udp + 2, 2) != kRocePort || get(udp + 4, 2) != total - 20) return std::nullopt;
  const std::byte* bth = udp + 8;
  const std::size_t pad = get(bth + 1, 1) >> 4 & 3, covered = total - kIcrcBytes;
  // Version 0 of the transport.
  if (get(bth, 1) != kUdSendOnly || (get(bth + 1, 1) & 0xf) != 0 || covered < kRoceHeadBytes + pad)
    return std::nullopt;
  std::uint32_t crc;
  std::memcpy(&crc, ip + covered, 4);
  if (crc != icrc({ip, covered})) return std::nullopt;
  const std::byte* deth = bth + 12;
  RocePacket packet;
  RoceHeader& header = packet.header;
  header.from_ipv4 = get(ip + 12, 4);
  header.to_ipv4 = get(ip + 16, 4);
  header.from_port = static_cast<std::uint16_t>(get(udp, 2));
  header.to_queue_pair = get(bth + 5, 3);
  header.sequence = get(bth + 9, 3);
  header.queue_key = get(deth, 4);
  header.from_queue_pair = get(deth + 5, 3);
  packet.payload = {deth + 8, covered - kRoceHeadBytes - pad};
  return packet;
}

}  // namespace weft::innet
