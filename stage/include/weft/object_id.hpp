#pragma once
// ObjectId: the 20 bytes that name an object in a store.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "weft/export.hpp"

namespace weft {

struct ObjectId {
  std::array<std::uint8_t, 20> bytes{};
  auto operator<=>(const ObjectId&) const = default;

  // 40 hexadecimal digits, or else a name of 1 to 20 letters, filled up with zeros. False if it is
  // neither.
  WEFT_API static bool parse(std::string_view text, ObjectId& id);
  // What parse() reads: the name if it is printable, else the digits.
  WEFT_API std::string text() const;
};

}  // namespace weft

template <>
struct std::hash<weft::ObjectId> {
  std::size_t operator()(const weft::ObjectId& id) const noexcept {
    std::uint64_t a, b;
    std::uint32_t c;
    __builtin_memcpy(&a, id.bytes.data(), 8);
    __builtin_memcpy(&b, id.bytes.data() + 8, 8);
    __builtin_memcpy(&c, id.bytes.data() + 16, 4);
    const auto product = static_cast<unsigned __int128>(a ^ 0x9e3779b97f4a7c15u) *
                         (b ^ 0xe7037ed1a0b428dbu ^ static_cast<std::uint64_t>(c) << 29);
    return static_cast<std::size_t>(product) ^ static_cast<std::size_t>(product >> 64) ^ c;
  }
};
