#pragma once
// The version of the Weft library that the program runs with. Any thread.
#include "weft/export.hpp"

namespace weft {

// "0.1.0"; static storage.
WEFT_API const char* version() noexcept;

}  // namespace weft
