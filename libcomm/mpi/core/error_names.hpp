#pragma once
// The predefined error classes with their names and texts; the rows are in error_names.inc.
#include <string_view>

namespace weft::mpi {

struct ErrorName {
  int code;
  std::string_view name;
  std::string_view text;
};

}  // namespace weft::mpi
