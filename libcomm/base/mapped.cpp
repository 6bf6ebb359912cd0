#include "base/mapped.hpp"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace weft {

// The kernel's list is in order of addresses.
bool is_mapped_writable(const void* address, std::size_t bytes) {
  std::uintptr_t next = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = next + bytes;
  std::ifstream maps("/proc/self/maps");
  if (!maps) return true;
  for (std::string line; next < end && std::getline(maps, line);) {
    std::uintptr_t from = 0, to = 0;
    char write = '-';
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*c%c", &from, &to, &write) != 3)
      return false;
    if (to <= next) continue;
    if (from > next || write != 'w') return false;
    next = to;
  }
  return next >= end;
}

}  // namespace weft
