// The properties of Fortran's types that the Fortran side of a program has set. The library itself
// needs none of them, as handles and statuses are the same for every Fortran: it keeps them for
// programs that query them.
#include <array>
#include <cstring>

#include "mpi/core/call.hpp"
#include "mpi/core/info.hpp"

namespace weft::mpi {
namespace {

constexpr int kMostLogicalBytes = 16;

// State of the process, set once, before or after MPI_Init, by any thread.
struct FortranTypes {
  std::mutex mutex;
  InfoPtr info;
  int logical_bytes = 0;  // 0 until set
  std::array<char, kMostLogicalBytes> logical_true{}, logical_false{};
};
FortranTypes fortran_types;

bool is_logical_size(int size) noexcept {
  return size == 1 || size == 2 || size == 4 || size == 8 || size == kMostLogicalBytes;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft::mpi;  // NOLINT: the bodies below are the C interface

MPI_FUNCTION(Abi_get_fortran_info)(MPI_Info* info) {
  if (info == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "info is null");
  std::unique_lock lock(fortran_types.mutex);
  *info = fortran_types.info ? make_info(fortran_types.info.get()) : MPI_INFO_NULL;
  return MPI_SUCCESS;
}
MPI_FUNCTION(Abi_set_fortran_info)(MPI_Info info) {
  const Info* given = find_info(info);
  if (given == nullptr) return raise(nullptr, MPI_ERR_INFO, __func__);
  std::unique_lock lock(fortran_types.mutex);
  if (fortran_types.info) {
    lock.unlock();  // The handler may query, too.
    return raise(nullptr, MPI_ERR_ABI, __func__, "it was set before");
  }
  fortran_types.info = copy_of(given);
  return MPI_SUCCESS;
}
MPI_FUNCTION(Abi_get_fortran_booleans)
(int logical_size, void* logical_true, void* logical_false, int* is_set) {
  if (is_set == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "is_set is null");
  std::unique_lock lock(fortran_types.mutex);
  *is_set = fortran_types.logical_bytes != 0;
  if (!*is_set) return MPI_SUCCESS;
  if (logical_size != fortran_types.logical_bytes) {
    lock.unlock();  // The handler may query, too.
    return raise(nullptr, MPI_ERR_ARG, __func__, "logical_size is not the one that was set");
  }
  if (logical_true == nullptr || logical_false == nullptr) {
    lock.unlock();  // The handler may query, too.
    return raise(nullptr, MPI_ERR_ARG, __func__, "logical_true or logical_false is null");
  }
  const auto size = static_cast<std::size_t>(logical_size);
  std::memcpy(logical_true, fortran_types.logical_true.data(), size);
  std::memcpy(logical_false, fortran_types.logical_false.data(), size);
  return MPI_SUCCESS;
}
MPI_FUNCTION(Abi_set_fortran_booleans)
(int logical_size, void* logical_true, void* logical_false) {
  if (!is_logical_size(logical_size))
    return raise(nullptr, MPI_ERR_ARG, __func__, "logical_size is not 1, 2, 4, 8 or 16");
  if (logical_true == nullptr || logical_false == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "logical_true or logical_false is null");
  std::unique_lock lock(fortran_types.mutex);
  if (fortran_types.logical_bytes != 0) {
    lock.unlock();  // The handler may query, too.
    return raise(nullptr, MPI_ERR_ABI, __func__, "they were set before");
  }
  const auto size = static_cast<std::size_t>(logical_size);
  std::memcpy(fortran_types.logical_true.data(), logical_true, size);
  std::memcpy(fortran_types.logical_false.data(), logical_false, size);
  fortran_types.logical_bytes = logical_size;
  return MPI_SUCCESS;
}
