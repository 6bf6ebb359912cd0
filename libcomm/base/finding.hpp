#pragma once
// Finding: one thing that weft-info --check has looked at, and what to do about it. Layers that
// know a device or a fabric make them (fabric/inspection.hpp); tools/weft-info/check prints them.
#include <string>

namespace weft {

struct Finding {
  // note: worth knowing, nothing suffers. warning: it works, but slowly, or not for all. error: it
  // does not work.
  enum class Level { ok, note, warning, error };
  Level level = Level::ok;
  std::string what;   // "locked memory", "rxe0:1"
  std::string value;  // as it is, with its unit
  std::string todo;   // with the command; empty: nothing
};

}  // namespace weft
