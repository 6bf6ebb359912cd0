#pragma once
// The name of memory of a Node for its peers.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "weft/export.hpp"

namespace weft {

// May be sent anywhere as bytes. Any holder can use the memory with the rights it was made for; it
// can't be guessed, is checked by the owner, and ends with the owner's life.
struct MemoryKey {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const MemoryKey&) const = default;
};

// The rights of a key's holder. Over shared memory a hostile process can read memory that it may
// write.
enum Rights : std::uint32_t { kRead = 1, kWrite = 2, kAtomic = 4, kAllRights = 7 };

}  // namespace weft
