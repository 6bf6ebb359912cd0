#pragma once
// Bfloat16: the upper half of a float: its sign, its 8 bits of exponent, and 7 of its fraction. It
// is computed with as a float and rounded.
#include <bit>
#include <cstdint>

#include "weft/export.hpp"

namespace weft {

struct Bfloat16 {
  std::uint16_t bits = 0;

  Bfloat16() = default;
  // Rounds to the nearest, halfway to even; a NaN stays one.
  explicit Bfloat16(float value) noexcept {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const bool is_number = (wide & 0x7fffffffu) <= 0x7f800000u;
    bits = static_cast<std::uint16_t>(is_number ? (wide + 0x7fffu + (wide >> 16 & 1u)) >> 16
                                                : wide >> 16 | 0x40u);
  }
  operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(Bfloat16) == 2);

}  // namespace weft
