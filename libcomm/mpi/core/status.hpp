#pragma once
// MPI_Status: the private part is the number of bytes and whether the operation was cancelled.
// Aligned to 4 only, hence memcpy.
#include <cstdint>
#include <cstring>

#include "mpi/core/abi.hpp"

namespace weft::mpi {

struct StatusPrivate {
  std::int64_t bytes;
  std::int32_t cancelled;
};
static_assert(sizeof(MPI_Status) == 32);
static_assert(sizeof(StatusPrivate) <= sizeof(MPI_Status::MPI_internal));

inline StatusPrivate load_private(const MPI_Status& status) noexcept {
  StatusPrivate inner;
  std::memcpy(&inner, status.MPI_internal, sizeof inner);
  return inner;
}

inline void store_private(MPI_Status& status, std::int64_t bytes, bool cancelled) noexcept {
  std::memcpy(status.MPI_internal, &bytes, sizeof bytes);
  status.MPI_internal[2] = cancelled ? 1 : 0;
}

// Leaves MPI_ERROR alone: calls that complete one operation do not touch it.
inline void fill_status(MPI_Status* status, int source, int tag, std::int64_t bytes) noexcept {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
  store_private(*status, bytes, false);
}

// The empty status of null and inactive requests.
inline void fill_empty(MPI_Status* status) noexcept {
  if (status == MPI_STATUS_IGNORE) return;
  fill_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  status->MPI_ERROR = MPI_SUCCESS;
}

// Fills in the status of a receive from, or a probe of, MPI_PROC_NULL.
inline void fill_proc_null(MPI_Status* status) noexcept {
  fill_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
}

}  // namespace weft::mpi
