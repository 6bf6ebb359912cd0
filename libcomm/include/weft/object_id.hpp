#pragma once
// ObjectId: what names an object in a store, 1 to 255 bytes of any value.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "weft/export.hpp"

namespace weft {

struct ObjectId {
  static constexpr std::size_t kMostBytes = 255;

  std::uint8_t size = 0;  // 0: names nothing, and every call refuses it
  std::array<std::uint8_t, kMostBytes> bytes{};

  // The id of these bytes. False: there are none, or more than kMostBytes.
  WEFT_API static bool make(std::string_view bytes, ObjectId& id);
  // The id that a text names: its bytes, or, of a text "0x" with an even number of hexadecimal
  // digits, the bytes that they spell. False: as for make().
  WEFT_API static bool parse(std::string_view text, ObjectId& id);
  // A text for parse(): the bytes if all are printable, else "0x" and digits.
  WEFT_API std::string text() const;

  std::string_view view() const noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), size};
  }
  friend bool operator==(const ObjectId& a, const ObjectId& b) noexcept {
    return a.size == b.size && std::memcmp(a.bytes.data(), b.bytes.data(), a.size) == 0;
  }
  friend std::strong_ordering operator<=>(const ObjectId& a, const ObjectId& b) noexcept {
    return a.view() <=> b.view();
  }
};
static_assert(sizeof(ObjectId) == 256);

// Equal on all hosts. Y. Wang's wyhash, shortened: blocks of 16 bytes, the last one overlapping.
inline std::uint64_t object_id_hash(std::string_view bytes) noexcept {
  const auto mix = [](std::uint64_t a, std::uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  constexpr std::uint64_t kFirst = 0x9e3779b97f4a7c15u, kSecond = 0xe7037ed1a0b428dbu;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t hash = left * kSecond, a = 0, b = 0;
  for (; left > 16; left -= 16, at += 16) {
    std::memcpy(&a, at, 8);
    std::memcpy(&b, at + 8, 8);
    hash = mix(a ^ kFirst, b ^ hash);
  }
  a = b = 0;
  if (left >= 8) {
    std::memcpy(&a, at, 8);
    std::memcpy(&b, at + left - 8, 8);
  } else if (left >= 4) {
    std::memcpy(&a, at, 4);
    std::memcpy(&b, at + left - 4, 4);
  } else {
    for (std::size_t i = 0; i < left; ++i) a = a << 8 | static_cast<std::uint8_t>(at[i]);
  }
  return mix(a ^ kFirst ^ hash, b ^ kSecond);
}

}  // namespace weft

template <>
struct std::hash<weft::ObjectId> {
  std::size_t operator()(const weft::ObjectId& id) const noexcept {
    return static_cast<std::size_t>(weft::object_id_hash(id.view()));
  }
};
