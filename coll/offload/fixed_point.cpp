#include "coll/offload/fixed_point.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace weft::offload {
namespace {

// The exponent of the unit.
int unit_of(std::int32_t exponent, int num_leaders) noexcept {
  return exponent + static_cast<int>(std::bit_width(static_cast<unsigned>(num_leaders) - 1u)) - 30;
}

}  // namespace

std::int32_t exponent_of(std::span<const std::byte> floats) noexcept {
  std::int32_t largest = kNoExponent;
  for (std::size_t i = 0; i + 4 <= floats.size(); i += 4) {
    float value;
    std::memcpy(&value, floats.data() + i, 4);
    if (!std::isfinite(value)) return kNotFinite;
    if (value == 0) continue;
    int exponent = 0;
    (void)std::frexp(value, &exponent);
    largest = std::max(largest, std::int32_t{exponent});
  }
  return largest;
}

void to_fixed(std::span<const std::byte> floats, std::int32_t exponent, int num_leaders,
              std::byte* to) noexcept {
  // The exponent that a broken switch returns must also give some integer.
  const bool is_number = exponent > kNoExponent && exponent < kNotFinite;
  const double scale = is_number ? std::ldexp(1.0, -unit_of(exponent, num_leaders)) : 0.0;
  for (std::size_t i = 0; i + 4 <= floats.size(); i += 4) {
    float value;
    std::memcpy(&value, floats.data() + i, 4);
    const double scaled = std::nearbyint(static_cast<double>(value) * scale);
    const auto integer =
        std::abs(scaled) <= 2147483647.0 ? static_cast<std::int32_t>(scaled) : std::int32_t{0};
    std::memcpy(to + i, &integer, 4);
  }
}

void from_fixed(std::span<const std::byte> integers, std::int32_t exponent, int num_leaders,
                std::byte* to) noexcept {
  const bool is_number = exponent > kNoExponent && exponent < kNotFinite;
  const double unit = is_number ? std::ldexp(1.0, unit_of(exponent, num_leaders)) : 0.0;
  for (std::size_t i = 0; i + 4 <= integers.size(); i += 4) {
    std::int32_t integer;
    std::memcpy(&integer, integers.data() + i, 4);
    const auto value = static_cast<float>(integer * unit);
    std::memcpy(to + i, &value, 4);
  }
}

}  // namespace weft::offload
