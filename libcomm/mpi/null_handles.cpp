// Conversions of the handles that Weft makes no objects of yet: only the null handles are valid.
#include "mpi/call.hpp"
#include "mpi/handle_table.hpp"
#include "mpi/state.hpp"

namespace weft::mpi {
namespace {

struct None {};
Immortal<HandleTable<MPI_File, None, Kind::file>> files;

}  // namespace
}  // namespace weft::mpi

using namespace weft::mpi;  // NOLINT: the bodies below are the C interface

MPI_CONVERSIONS(File, MPI_File, files)

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
