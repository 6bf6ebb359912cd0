#include "checksum.hpp"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace weft::objstore {
namespace {

constexpr auto kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = value % 2 != 0 ? value >> 1 ^ 0x82f63b78u : value >> 1;
    table[i] = value;
  }
  return table;
}();

std::uint32_t by_table(const std::byte* data, std::size_t bytes, std::uint32_t crc) {
  for (std::size_t i = 0; i < bytes; ++i)
    crc = kCrcTable[(crc ^ static_cast<std::uint8_t>(data[i])) & 0xff] ^ crc >> 8;
  return crc;
}

#if defined(__x86_64__)
// 8 bytes in the 3 cycles that the instruction takes.
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(const std::byte* data,
                                                               std::size_t bytes,
                                                               std::uint32_t before) {
  std::uint64_t crc = before;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  return by_table(data, bytes, static_cast<std::uint32_t>(crc));
}
#endif

}  // namespace

std::uint32_t crc32c(const std::byte* data, std::size_t bytes, std::uint32_t before) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) return ~by_instruction(data, bytes, ~before);
#endif
  return ~by_table(data, bytes, ~before);
}

std::uint64_t checksum_of(const std::byte* object, std::uint64_t data_bytes,
                          std::uint32_t metadata_bytes) {
  return ~(std::uint64_t{crc32c(object + data_bytes, metadata_bytes)} << 32 |
           crc32c(object, data_bytes));
}

}  // namespace weft::objstore
