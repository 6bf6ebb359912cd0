#include "base/os/mapped.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace weft {

Status find_writable(const void* address, std::size_t bytes, bool& is_writable) {
  std::uintptr_t next = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = next + bytes;
  is_writable = true;
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0 && errno != EMFILE && errno != ENFILE && errno != ENOMEM) return {};
  if (maps < 0)
    return {Code::no_memory, fmt::format("cannot look at /proc/self/maps: {} (see ulimit -n)",
                                         std::strerror(errno))};
  // Lines in order of addresses; a name may be longer than the buffer.
  char text[8192];
  std::size_t length = 0;
  bool is_start = true;  // of a line
  while (next < end && is_writable) {
    const ssize_t more = read(maps, text + length, sizeof text - 1 - length);
    if (more <= 0) break;
    length += static_cast<std::size_t>(more);
    text[length] = '\0';
    const char* line = text;
    while (next < end && is_writable) {
      const char* const stop = std::strchr(line, '\n');
      if (stop == nullptr && (line != text || length < sizeof text - 1)) break;
      std::uintptr_t from = 0, to = 0;
      char write = '-';
      if (is_start) {
        if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*c%c", &from, &to, &write) != 3)
          is_writable = false;
        else if (to > next && (from > next || write != 'w'))
          is_writable = false;
        else if (to > next)
          next = to;
      }
      is_start = stop != nullptr;
      line = stop != nullptr ? stop + 1 : text + length;
    }
    length = static_cast<std::size_t>(text + length - line);
    std::memmove(text, line, length);
  }
  close(maps);
  is_writable = is_writable && next >= end;
  return {};
}

}  // namespace weft
