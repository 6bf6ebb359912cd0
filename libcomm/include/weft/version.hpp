#pragma once
// The version of Weft: of these headers, for the preprocessor, and of the library that the program
// runs with. Any thread.
#include "weft/export.hpp"

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
// One number, for comparisons: 0.1.0 is 100.
#define WEFT_VERSION_NUMBER \
  (WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH)

namespace weft {

// "0.1.0"; static storage.
WEFT_API const char* version() noexcept;

}  // namespace weft
