#pragma once
// Names that a program has chosen, for a terminal, which they must not control.
#include <ctype.h>

#include <algorithm>
#include <string>

namespace weft::weftrun {

inline std::string readable_of(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char letter) { return iscntrl(letter) != 0; }, '?');
  return text;
}

}  // namespace weft::weftrun
