#pragma once
// What names memory of a Node to its peers.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "weft/export.hpp"

namespace weft {

// May be sent anywhere as bytes. Whoever has it can use the memory with the rights it was made for;
// it can't be guessed, is checked by the owner, and ends with the owner's life.
struct MemoryKey {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const MemoryKey&) const = default;
};

// What a key lets its holder do. Over shared memory a hostile process can read what it may write.
enum Rights : std::uint32_t { kRead = 1, kWrite = 2, kAtomic = 4, kAllRights = 7 };

}  // namespace weft
