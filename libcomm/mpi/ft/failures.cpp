// MPI_Comm_get_failed, MPI_Comm_ack_failed and their older forms, and the same for windows and
// files, which know of their communicator's members.
#include "mpi/ft/failures.hpp"

#include <algorithm>
#include <memory>
#include <mutex>

#include "mpi/core/call.hpp"
#include "mpi/core/session.hpp"
#include "mpi/file/file.hpp"
#include "mpi/window/window.hpp"

namespace weft::mpi::ft {

std::vector<int> failed_members(const Comm& comm) {
  engine->check_for_lost();
  std::vector<int> failed = engine->lost();
  std::erase_if(failed, [&comm](int world) {
    return comm.group->rank_of(world) == MPI_UNDEFINED &&
           comm.peer_group().rank_of(world) == MPI_UNDEFINED;
  });
  return failed;
}

std::vector<int> acknowledged_members(Comm& comm) {
  std::vector<int> failed = failed_members(comm);
  const std::lock_guard lock(comm.mutex);
  failed.resize(std::min(failed.size(), static_cast<std::size_t>(comm.num_acknowledged)));
  return failed;
}

namespace {

// Acknowledges the first `num` failed members, besides those before. Returns how many are.
int acknowledge(Comm& comm, std::size_t num) {
  const std::vector<int> failed = failed_members(comm);
  const std::lock_guard lock(comm.mutex);
  num = std::max(std::min(num, failed.size()), static_cast<std::size_t>(comm.num_acknowledged));
  comm.for_each_channel([&](std::uint32_t context) {
    engine->acknowledge(context, {failed.data(), num});
  });
  comm.num_acknowledged = static_cast<int>(num);
  return comm.num_acknowledged;
}

MPI_Group group_of(const Comm& comm, const std::vector<int>& members) {
  return make_group_handle(std::make_shared<Group>(std::span<const int>(members), comm.session));
}

// The functions of an object that has a communicator. `object` is null if `code` says why.
template <class Object>
int get_failed(Object* object, int code, MPI_Group* failedgrp, const char* function) {
  if (object == nullptr) return raise_on(object, code, function);
  if (failedgrp == nullptr) return raise_on(object, MPI_ERR_ARG, function, "failedgrp is null");
  *failedgrp = group_of(*object->comm, failed_members(*object->comm));
  return MPI_SUCCESS;
}
template <class Object>
int ack_failed(Object* object, int code, int num_to_ack, int* num_acked, const char* function) {
  if (object == nullptr) return raise_on(object, code, function);
  if (num_acked == nullptr) return raise_on(object, MPI_ERR_ARG, function, "num_acked is null");
  if (num_to_ack < 0) return raise_on(object, MPI_ERR_ARG, function, "num_to_ack is negative");
  *num_acked = acknowledge(*object->comm, static_cast<std::size_t>(num_to_ack));
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::mpi::ft

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Comm_get_failed)(MPI_Comm comm, MPI_Group* failedgrp) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (failedgrp == nullptr) return raise(object, MPI_ERR_ARG, __func__, "failedgrp is null");
  *failedgrp = ft::group_of(*object, ft::failed_members(*object));
  return MPI_SUCCESS;
}
MPIX_ALIAS(Comm_get_failed)

MPI_FUNCTION(Comm_ack_failed)(MPI_Comm comm, int num_to_ack, int* num_acked) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (num_acked == nullptr) return raise(object, MPI_ERR_ARG, __func__, "num_acked is null");
  if (num_to_ack < 0) return raise(object, MPI_ERR_ARG, __func__, "num_to_ack is negative");
  *num_acked = ft::acknowledge(*object, static_cast<std::size_t>(num_to_ack));
  return MPI_SUCCESS;
}
MPIX_ALIAS(Comm_ack_failed)

MPIX_FUNCTION(Comm_failure_ack)(MPI_Comm comm) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  ft::acknowledge(*object, ~std::size_t{0});
  return MPI_SUCCESS;
}

MPIX_FUNCTION(Comm_failure_get_acked)(MPI_Comm comm, MPI_Group* failedgrp) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  if (failedgrp == nullptr) return raise(object, MPI_ERR_ARG, __func__, "failedgrp is null");
  *failedgrp = ft::group_of(*object, ft::acknowledged_members(*object));
  return MPI_SUCCESS;
}

MPI_FUNCTION(Win_get_failed)(MPI_Win win, MPI_Group* failedgrp) {
  return ft::get_failed(find_window(win), MPI_ERR_WIN, failedgrp, __func__);
}
MPIX_ALIAS(Win_get_failed)

MPI_FUNCTION(Win_ack_failed)(MPI_Win win, int num_to_ack, int* num_acked) {
  return ft::ack_failed(find_window(win), MPI_ERR_WIN, num_to_ack, num_acked, __func__);
}
MPIX_ALIAS(Win_ack_failed)

MPI_FUNCTION(File_get_failed)(MPI_File fh, MPI_Group* failedgrp) {
  return ft::get_failed(find_file(fh), MPI_ERR_FILE, failedgrp, __func__);
}
MPIX_ALIAS(File_get_failed)

MPI_FUNCTION(File_ack_failed)(MPI_File fh, int num_to_ack, int* num_acked) {
  return ft::ack_failed(find_file(fh), MPI_ERR_FILE, num_to_ack, num_acked, __func__);
}
MPIX_ALIAS(File_ack_failed)
