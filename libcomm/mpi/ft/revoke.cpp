// MPI_Comm_revoke and MPI_Comm_is_revoked, and the same for windows and files: these are revoked by
// their communicator.
#include "mpi/core/call.hpp"
#include "mpi/file/file.hpp"
#include "mpi/ft/control.hpp"
#include "mpi/window/window.hpp"

namespace weft::mpi::ft {
namespace {

int hears_of_revocation(const Comm& comm) {
  // A program that asks again and again must hear of it.
  if (!is_revoked(comm)) engine->progress(comm.context);
  return is_revoked(comm) ? 1 : 0;
}

}  // namespace
}  // namespace weft::mpi::ft

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Comm_revoke)(MPI_Comm comm) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  ft::revoke(*object, engine->rank());
  return MPI_SUCCESS;
}
MPIX_ALIAS(Comm_revoke)

MPI_FUNCTION(Comm_is_revoked)(MPI_Comm comm, int* flag) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (flag == nullptr) return raise(object, MPI_ERR_ARG, __func__, "flag is null");
  *flag = ft::hears_of_revocation(*object);
  return MPI_SUCCESS;
}
MPIX_ALIAS(Comm_is_revoked)

MPI_FUNCTION(Win_revoke)(MPI_Win win) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(window, MPI_ERR_WIN, __func__);
  ft::revoke(*window->comm, engine->rank());
  return MPI_SUCCESS;
}
MPIX_ALIAS(Win_revoke)

MPI_FUNCTION(Win_is_revoked)(MPI_Win win, int* flag) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(window, MPI_ERR_WIN, __func__);
  if (flag == nullptr) return raise_on(window, MPI_ERR_ARG, __func__, "flag is null");
  *flag = ft::hears_of_revocation(*window->comm);
  return MPI_SUCCESS;
}
MPIX_ALIAS(Win_is_revoked)

MPI_FUNCTION(File_revoke)(MPI_File fh) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  ft::revoke(*file->comm, engine->rank());
  return MPI_SUCCESS;
}
MPIX_ALIAS(File_revoke)

MPI_FUNCTION(File_is_revoked)(MPI_File fh, int* flag) {
  File* file = find_file(fh);
  if (file == nullptr) return raise_on(file, MPI_ERR_FILE, __func__);
  if (flag == nullptr) return raise_on(file, MPI_ERR_ARG, __func__, "flag is null");
  *flag = ft::hears_of_revocation(*file->comm);
  return MPI_SUCCESS;
}
MPIX_ALIAS(File_is_revoked)
