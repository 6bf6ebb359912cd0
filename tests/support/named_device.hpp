#pragma once
// The RDMA port that the environment names for tests which open one themselves: siw's is taken by
// its name alone.
#include <cstdlib>
#include <string>

namespace weft::testing {

inline std::string named_device() {
  const char* name = std::getenv("WEFT_DEVICE");
  return name != nullptr ? name : "";
}

}  // namespace weft::testing
