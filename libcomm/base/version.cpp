#include "weft/version.hpp"

#include <string_view>

#define WEFT_TEXT_OF(number) #number
#define WEFT_VERSION_TEXT(major, minor, patch) \
  WEFT_TEXT_OF(major) "." WEFT_TEXT_OF(minor) "." WEFT_TEXT_OF(patch)

namespace weft {

// WEFT_VERSION is the project's, from meson.build.
static_assert(std::string_view(WEFT_VERSION) ==
                  WEFT_VERSION_TEXT(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH),
              "weft/version.hpp and meson.build name different versions");

const char* version() noexcept { return WEFT_VERSION; }

}  // namespace weft
