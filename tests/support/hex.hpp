#pragma once
// Bytes as lower-case hexadecimal digits, as the board has the addresses of endpoints.
#include <string>
#include <string_view>

namespace weft::test {

inline std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    for (const int shift : {4, 0}) text += "0123456789abcdef"[byte >> shift & 15];
  return text;
}

inline std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace weft::test
