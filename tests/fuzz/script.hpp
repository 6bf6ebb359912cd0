#pragma once
// Script: the input of a fuzz target, read as a row of values. Behind its end there are zeros.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

struct Script {
  const std::uint8_t* data;
  std::size_t size;

  template <class T>
  T take() noexcept {
    T value{};
    const std::size_t bytes = std::min(size, sizeof value);
    if (bytes != 0) std::memcpy(&value, data, bytes);  // of no input there is no address
    data += bytes;
    size -= bytes;
    return value;
  }
  // Fewer if no more are left; never at a null address, as with buffers that bytes arrive in.
  std::vector<std::byte> take_bytes(std::size_t most) {
    const auto* start = reinterpret_cast<const std::byte*>(data);
    const std::size_t bytes = std::min(size, most);
    data += bytes;
    size -= bytes;
    std::vector<std::byte> taken;
    taken.reserve(1);
    taken.assign(start, start + bytes);
    return taken;
  }
};
