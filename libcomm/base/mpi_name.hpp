#pragma once
// Functions of MPI by their names, as symbols of programs and libraries have them.
#include <string_view>

namespace weft {

// "MPI_Send", "MPIX_Comm_shrink", and by the names with which tools call them: "PMPI_Send".
inline bool is_mpi_function(std::string_view name) noexcept {
  if (name.starts_with('P')) name.remove_prefix(1);
  return name.starts_with("MPI_") || name.starts_with("MPIX_");
}

// Such a function as programs call it.
inline std::string_view without_p(std::string_view function) noexcept {
  return function.substr(function.starts_with('P') ? 1 : 0);
}

}  // namespace weft
