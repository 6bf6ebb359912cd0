#pragma once
// What every function body of the MPI interface starts with: its two exported names, the check that
// MPI runs, and the way errors are raised.
//
//   MPI_FUNCTION(Comm_size)(MPI_Comm comm, int* size) {
//     Comm* object = find_comm(comm);
//     if (object == nullptr) [[unlikely]] return raise(nullptr, MPI_ERR_COMM, __func__);
//     if (size == nullptr) [[unlikely]] return raise(object, MPI_ERR_ARG, __func__, "size is
//     null");
//     ...
//     return MPI_SUCCESS;
//   }
//
// A function that takes a handle of an object needs no check of its own that MPI runs: before
// MPI_Init and after MPI_Finalize no handle finds anything, and raise says why. Others start with
// MPI_MUST_RUN().
#include <string_view>

#include "mpi/abi.hpp"

// PMPI_name, strong, defined by what follows; MPI_name, a weak alias that tools may take over.
#define MPI_ALIAS(name) \
  extern "C" decltype(PMPI_##name) MPI_##name __attribute__((weak, alias("PMPI_" #name)));
#define MPI_FUNCTION(name) \
  MPI_ALIAS(name)          \
  extern "C" int PMPI_##name

// MPI_<name>_toint and _fromint of the handles in a table; for use outside namespaces.
#define MPI_CONVERSIONS(name, handle_type, table)                                    \
  MPI_FUNCTION(name##_toint)(handle_type handle) { return (table)->to_int(handle); } \
  MPI_ALIAS(name##_fromint)                                                          \
  extern "C" handle_type PMPI_##name##_fromint(int number) { return (table)->from_int(number); }

#define MPI_MUST_RUN() MPI_MUST_RUN_IN(__func__)
// The same in a helper that was given the exported function's name.
#define MPI_MUST_RUN_IN(function)   \
  do {                              \
    if (!is_running()) [[unlikely]] \
      return not_running(function); \
  } while (false)

namespace weft::mpi {

struct Comm;

enum class Phase : int { before_init = 0, running, finalized };
inline Phase phase = Phase::before_init;  // written by Init and Finalize only
inline bool is_running() noexcept { return phase == Phase::running; }

// Raises an error of class `code` (or of a code the program added) on the communicator's error
// handler; null: on that of MPI_COMM_SELF, where errors without an object go. `function` is
// __func__ of the exported function (a leading P is dropped). Returns the code if the handler
// returns. If MPI is not running the message says so instead.
[[nodiscard, gnu::cold]] int raise(Comm* comm, int code, const char* function,
                                   std::string_view text = {});
[[nodiscard, gnu::cold]] int not_running(const char* function);

}  // namespace weft::mpi
