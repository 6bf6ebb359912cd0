#include "coll/switch/icrc.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace weft::innet {
namespace {

constexpr std::uint32_t kPolynomial = 0xedb88320;  // the lowest bit is the highest power
constexpr std::size_t kSlices = 8;

using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

// tables[s][b]: the effect of byte b, s bytes before the end.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (std::size_t s = 1; s < kSlices; ++s)
    for (std::size_t b = 0; b < 256; ++b)
      tables[s][b] = tables[s - 1][b] >> 8 ^ tables[0][tables[s - 1][b] & 0xff];
  return tables;
}
constexpr Tables kTables = make_tables();

std::uint32_t by_table(std::uint32_t crc, const std::byte* at, std::size_t count) noexcept {
  for (; count >= 8; at += 8, count -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t s = 0; s < 8; ++s) crc ^= kTables[7 - s][word >> (8 * s) & 0xff];
  }
  for (; count > 0; ++at, --count)
    crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*at)) & 0xff];
  return crc;
}

#ifdef __x86_64__
// Four blocks of 16 bytes at a time are folded into the next four by multiplications without carry,
// in the end to one, which the tables reduce (Gopal et al., "Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ Instruction", 2009). The constants are powers of x, by the distance
// of a fold, in this CRC's order of bits. `first` are 64 bytes, the others follow them.
[[gnu::target("pclmul,sse4.1")]] std::uint32_t by_folding(std::uint32_t crc, const std::byte* first,
                                                          const std::byte* at,
                                                          std::size_t count) noexcept {
  const auto load = [](const std::byte* from) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  const auto fold =
      [](__m128i block, __m128i by, __m128i next) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_xor_si128(next, _mm_xor_si128(_mm_clmulepi64_si128(block, by, 0x00),
                                             _mm_clmulepi64_si128(block, by, 0x11)));
  };
  const __m128i by_four = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);  // 64 bytes on
  const __m128i by_one = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);   // 16 bytes on
  __m128i blocks[4];
  for (int i = 0; i < 4; ++i) blocks[i] = load(first + 16 * i);
  blocks[0] = _mm_xor_si128(blocks[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (; count >= 64; at += 64, count -= 64)
    for (int i = 0; i < 4; ++i) blocks[i] = fold(blocks[i], by_four, load(at + 16 * i));
  __m128i block = blocks[0];
  for (int i = 1; i < 4; ++i) block = fold(block, by_one, blocks[i]);
  for (; count >= 16; at += 16, count -= 16) block = fold(block, by_one, load(at));
  alignas(16) std::byte rest[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(rest), block);
  return by_table(by_table(0, rest, 16), at, count);
}
const bool kFolds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif

}  // namespace

std::uint32_t crc32_by_table(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  return ~by_table(~crc, bytes.data(), bytes.size());
}

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
#ifdef __x86_64__
  if (bytes.size() >= 64 && kFolds)
    return ~by_folding(~crc, bytes.data(), bytes.data() + 64, bytes.size() - 64);
#endif
  return crc32_by_table(crc, bytes);
}

std::uint32_t icrc(std::span<const std::byte> packet) noexcept {
  // Eight bytes for a header that Ethernet does not have, IPv4, UDP, BTH; fields that may change
  // count as ones.
  constexpr std::size_t kIp = 8, kUdp = kIp + 20, kBth = kUdp + 8, kCovered = kBth + 12;
  std::array<std::byte, 64> head;  // room for the first bytes after it
  head.fill(std::byte{0xff});
  if (packet.size() < kCovered - kIp) return 0;
  std::memcpy(head.data() + kIp, packet.data(), kCovered - kIp);
  head[kIp + 1] = std::byte{0xff};   // type of service
  head[kIp + 8] = std::byte{0xff};   // time to live
  head[kIp + 10] = std::byte{0xff};  // checksums
  head[kIp + 11] = std::byte{0xff};
  head[kUdp + 6] = std::byte{0xff};
  head[kUdp + 7] = std::byte{0xff};
  head[kBth + 4] = std::byte{0xff};  // congestion marks
  const auto rest = packet.subspan(kCovered - kIp);
#ifdef __x86_64__
  constexpr std::size_t kMore = 64 - kCovered;
  if (rest.size() >= kMore && kFolds) {
    std::memcpy(head.data() + kCovered, rest.data(), kMore);
    return ~by_folding(~0u, head.data(), rest.data() + kMore, rest.size() - kMore);
  }
#endif
  return crc32(crc32(0, std::span(head).first(kCovered)), rest);
}

}  // namespace weft::innet
