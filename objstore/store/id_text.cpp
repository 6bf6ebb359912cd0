#include "id_text.hpp"

#include <algorithm>

namespace weft {
namespace objstore {
namespace {

int digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

}  // namespace

std::string hex_of(const ObjectId& id) {
  std::string digits;
  digits.reserve(2 * std::size_t{id.size});
  for (const char letter : id.view()) {
    const auto byte = static_cast<std::uint8_t>(letter);
    for (const int half : {byte >> 4, byte & 15}) digits += "0123456789abcdef"[half];
  }
  return digits;
}

bool id_of_hex(std::string_view digits, ObjectId& id) {
  if (digits.empty() || digits.size() % 2 != 0 || digits.size() > 2 * ObjectId::kMostBytes)
    return false;
  ObjectId made;
  made.size = static_cast<std::uint8_t>(digits.size() / 2);
  for (std::size_t i = 0; i < made.size; ++i) {
    const int high = digit(digits[2 * i]), low = digit(digits[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    made.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  id = made;
  return true;
}

}  // namespace objstore

bool ObjectId::make(std::string_view bytes, ObjectId& id) {
  if (bytes.empty() || bytes.size() > kMostBytes) return false;
  ObjectId made;
  made.size = static_cast<std::uint8_t>(bytes.size());
  std::memcpy(made.bytes.data(), bytes.data(), bytes.size());
  id = made;
  return true;
}

bool ObjectId::parse(std::string_view text, ObjectId& id) {
  return (text.starts_with("0x") && objstore::id_of_hex(text.substr(2), id)) || make(text, id);
}

std::string ObjectId::text() const {
  const std::string_view name = view();
  ObjectId other;
  const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char letter) {
    return letter > ' ' && letter <= '~';
  });
  // A name that parse() would read as digits is written as its own digits.
  if (is_name && parse(name, other) && other == *this) return std::string(name);
  return "0x" + objstore::hex_of(*this);
}

}  // namespace weft
