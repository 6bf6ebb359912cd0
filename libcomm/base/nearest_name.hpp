#pragma once
// Which name a person probably meant.
// Tests: tests/base/nearest_name_test.cpp.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// The name that `word` probably stands for, or nothing if none is near. Case, dashes and
// underscores do not count; a word that is the beginning of a name, but for a few letters, is near
// to it ("eagr" to "EAGER_MAX_BYTES").
std::optional<std::string> nearest_name(std::string_view word,
                                        const std::vector<std::string>& names);

}  // namespace weft
