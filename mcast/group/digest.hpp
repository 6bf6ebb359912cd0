#pragma once
// Digests by which members compare their settings.
#include <sodium.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::mcast {

template <class T>
std::array<std::uint8_t, 16> digest(const std::vector<T>& items) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, 16);
  for (const T& item : items) {
    std::string bytes;
    if constexpr (std::is_same_v<T, std::string>)
      bytes = item;
    else
      bytes = std::to_string(item);
    bytes += '\0';
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(bytes.data()),
                              bytes.size());
  }
  std::array<std::uint8_t, 16> result;
  crypto_generichash_final(&state, result.data(), result.size());
  return result;
}

}  // namespace weft::mcast
