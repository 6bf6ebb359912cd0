#pragma once
// Mixing of numbers. Any thread.
#include <cstdint>

namespace weft {

// Between two numbers of a sequence that is mixed: an odd number, so that all come.
inline constexpr std::uint64_t kMixStep = 0x9e37'79b9'7f4a'7c15u;

// splitmix64's, by Sebastiano Vigna: one to one, and easily undone.
constexpr std::uint64_t mix(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9u;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebu;
  return z ^ (z >> 31);
}

}  // namespace weft
