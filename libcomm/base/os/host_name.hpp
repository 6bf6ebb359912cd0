#pragma once
// The host's name as its kernel has it. Any thread.
#include <limits.h>
#include <unistd.h>

#include <string>

namespace weft {

// "localhost" where it has none.
inline std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace weft
