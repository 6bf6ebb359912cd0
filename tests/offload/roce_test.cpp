// RoCEv2 packets: bit for bit as a device makes them, and nothing but such is read.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "coll/switch/icrc.hpp"
#include "coll/switch/roce.hpp"

namespace weft::innet {
namespace {

using Bytes = std::vector<std::byte>;

Bytes some(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_CASE("the CRC is that of Ethernet, however it is computed") {
  const char* digits = "123456789";
  CHECK(crc32(0, std::as_bytes(std::span(digits, 9))) == 0xcbf43926);
  for (std::size_t length = 0; length < 700; ++length) {
    const Bytes bytes = some(length + 7, length);
    const auto part = std::span(bytes).subspan(length % 7, length);
    std::uint32_t slow = 0xffffffff;
    for (const std::byte byte : part) {
      slow ^= static_cast<std::uint32_t>(byte);
      for (int bit = 0; bit < 8; ++bit) slow = slow >> 1 ^ (slow & 1 ? 0xedb88320u : 0u);
    }
    REQUIRE(crc32(0, part) == ~slow);
    REQUIRE(crc32_by_table(0, part) == ~slow);
    const std::size_t half = length / 2;
    REQUIRE(crc32(crc32(0, part.first(half)), part.subspan(half)) == ~slow);
  }
}

TEST_CASE("the ICRC is that of a device") {
  // A congestion notification that a ConnectX-4 Lx has sent, from its IPv4 header to its ICRC.
  const unsigned char captured[] = {
      0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11,
      0x01, 0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00,
      0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a};
  const auto bytes = std::as_bytes(std::span(captured));
  std::uint32_t expected;
  std::memcpy(&expected, captured + 56, 4);
  CHECK(icrc(bytes.first(56)) == expected);
}

TEST_CASE("what was written is read, and nothing that has changed on the way but what may") {
  std::mt19937_64 random(1);
  for (const std::size_t length : {0u, 1u, 2u, 3u, 4u, 40u, 297u, 1064u}) {
    RoceHeader header{0x0a000001,       0x0a0000fe,    0xc123,  0x812345,
                      kSwitchQueuePair, kRoceQueueKey, 0xabcdef};
    const Bytes payload = some(length, length);
    Bytes packet(kMaxRoceBytes);
    packet.resize(write_roce(packet, header, payload));
    REQUIRE(packet.size() == 48 + (length + 3) / 4 * 4 + 4);
    const auto read = read_roce(packet);
    REQUIRE(read);
    CHECK(read->header == header);
    CHECK(Bytes(read->payload.begin(), read->payload.end()) == payload);
    // Ethernet's padding.
    Bytes longer = packet;
    longer.resize(packet.size() + 9);
    REQUIRE(read_roce(longer));
    CHECK(read_roce(longer)->payload.size() == length);
    for (std::size_t cut = 0; cut < packet.size(); ++cut)
      REQUIRE_FALSE(read_roce(std::span(packet).first(cut)));
    // Routers change the type of service, the time to live, checksums and congestion marks.
    for (std::size_t at = 0; at < packet.size(); ++at) {
      Bytes changed = packet;
      changed[at] ^= static_cast<std::byte>(1u << random() % 8);
      const bool may =
          at == 1 || at == 8 || at == 10 || at == 11 || at == 26 || at == 27 || at == 32;
      INFO("byte " << at);
      REQUIRE(read_roce(changed).has_value() == may);
    }
  }
}

TEST_CASE("any bytes are read without harm") {
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Bytes bytes(kMaxRoceBytes);
    RoceHeader header;
    bytes.resize(write_roce(bytes, header, some(seed % 90, seed)));
    std::mt19937_64 random(seed);
    for (int i = 0; i < 3; ++i) bytes[random() % 48] = static_cast<std::byte>(random());
    (void)read_roce(bytes);
    (void)read_roce(some(seed % 200, seed));
  }
}

}  // namespace
}  // namespace weft::innet
