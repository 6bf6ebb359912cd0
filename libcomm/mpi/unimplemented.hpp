#pragma once
// The list of functions that are not written yet, for weft-info and the conformance page.
#include <span>

namespace weft::mpi {

// Sorted, with the prefix MPI_.
std::span<const char* const> unimplemented_functions() noexcept;

// MPI_ERR_UNSUPPORTED_OPERATION through the error handler, with the function's name; where no
// handler exists, before MPI_Init and after MPI_Finalize, it ends the process.
[[gnu::cold]] int raise_unimplemented(const char* function);

}  // namespace weft::mpi
