// MPI_Comm_revoke and MPI_Comm_is_revoked.
#include "mpi/core/call.hpp"
#include "mpi/ft/control.hpp"

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Comm_revoke)(MPI_Comm comm) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  ft::revoke(*object, false);
  return MPI_SUCCESS;
}
MPIX_ALIAS(Comm_revoke)

MPI_FUNCTION(Comm_is_revoked)(MPI_Comm comm, int* flag) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (flag == nullptr) return raise(object, MPI_ERR_ARG, __func__, "flag is null");
  // A program that asks again and again must hear of it.
  if (!is_revoked(*object)) engine->progress(object->context);
  *flag = is_revoked(*object) ? 1 : 0;
  return MPI_SUCCESS;
}
MPIX_ALIAS(Comm_is_revoked)
