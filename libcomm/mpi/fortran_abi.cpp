#include "mpi/call.hpp"

using namespace weft::mpi;  // NOLINT: the bodies below are the C interface

// Weft has no Fortran side: nothing is known about its types, which the standard lets a C library
// say.
MPI_FUNCTION(Abi_get_fortran_info)(MPI_Info* info) {
  if (info == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "info is null");
  *info = MPI_INFO_NULL;
  return MPI_SUCCESS;
}
MPI_FUNCTION(Abi_get_fortran_booleans)(int, void*, void*, int* is_set) {
  if (is_set == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "is_set is null");
  *is_set = 0;
  return MPI_SUCCESS;
}
