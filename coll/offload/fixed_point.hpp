#pragma once
// Sums of floats by switches that add integers of 32 bits only, after Sapio et al., "Scaling
// Distributed Machine Learning with In-Network Aggregation" (SwitchML), 2021, section 3.7.
//
// For every chunk of a vector the leaders agree on the largest exponent E that any of them has in
// it (all |x| < 2^E), and send integers: x as a multiple of the unit 2^(E + L - 30), for up to 2^L
// leaders, rounded to the nearest. Their sum fits into 32 bits. A packet carries the exponent of a
// chunk and the integers of the one before it in the same slot, whose exponent came back with the
// last packet there: so they agree one window ahead, and a vector costs one window more.
//
// Error: each leader's rounding is at most half a unit, so the sum of N leaders' is off by at most
// N/2 units, and is rounded to a float once: by N 2^(E + L - 31) and half a unit in the last place
// of the result. Where the largest |x| of a chunk is m, that is at most N 2^(L - 30) m.
//
// Pure functions; any thread.
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::offload {

// The exponent of a chunk of zeros, and where there is no chunk.
inline constexpr std::int32_t kNoExponent = -(1 << 20);
// The exponent of a chunk with an infinity or a NaN, which integers cannot represent: the hosts add
// it.
inline constexpr std::int32_t kNotFinite = 1 << 20;

// The exponent E of a chunk. Floats may be at any address.
std::int32_t exponent_of(std::span<const std::byte> floats) noexcept;
// Writes as many little-endian integers to `to`; none of the values is as large as 2^exponent.
void to_fixed(std::span<const std::byte> floats, std::int32_t exponent, int num_leaders,
              std::byte* to) noexcept;
void from_fixed(std::span<const std::byte> integers, std::int32_t exponent, int num_leaders,
                std::byte* to) noexcept;

}  // namespace weft::offload
