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
// A body may run out of memory: std::bad_alloc becomes MPI_ERR_NO_MEM here, for all functions, on
// the handler of the window, file or communicator among the arguments. So a body changes nothing
// that it would not leave behind before it has all its memory; whoever calls again then finds
// things as they were.
//
// A function that takes a handle of an object needs no check of its own that MPI runs: before
// MPI_Init and after MPI_Finalize no handle finds anything, and raise says why. Others start with
// MPI_MUST_RUN().
#include <atomic>
#include <new>
#include <string_view>
#include <type_traits>

#include "base/trace.hpp"
#include "mpi/core/abi.hpp"

// PMPI_name, defined by what follows; MPI_name, a weak alias that tools may take over.
#define MPI_ALIAS(name) \
  extern "C" decltype(PMPI_##name) MPI_##name __attribute__((weak, alias("PMPI_" #name)));
// What follows is a function of that name in a namespace of its own. The exported one is an alias
// of what is around it, a friend that a template defines, as only a template knows the parameters
// by a function's type; what is asserted makes the compiler define it here.
#define MPI_FUNCTION(name)                                                                 \
  namespace weft::mpi::bodies {                                                            \
  static decltype(::PMPI_##name) PMPI_##name;                                              \
  }                                                                                        \
  extern "C" decltype(PMPI_##name) weft_call_##name;                                       \
  template <class Type>                                                                    \
  struct Export_##name;                                                                    \
  template <class... Parameters>                                                           \
  struct Export_##name<int(Parameters...)> {                                               \
    friend int weft_call_##name(Parameters... arguments) {                                 \
      const weft::trace::Span span("MPI_" #name);                                          \
      try {                                                                                \
        return weft::mpi::bodies::PMPI_##name(arguments...);                               \
      } catch (const std::bad_alloc&) {                                                    \
        return weft::mpi::raise_no_memory(                                                 \
            {weft::mpi::win_among(arguments...), weft::mpi::file_among(arguments...),      \
             weft::mpi::comm_among(arguments...)},                                         \
            "PMPI_" #name);                                                                \
      }                                                                                    \
    }                                                                                      \
  };                                                                                       \
  template struct Export_##name<decltype(PMPI_##name)>;                                    \
  static_assert(weft::mpi::is_function(weft_call_##name));                                 \
  extern "C" decltype(PMPI_##name) PMPI_##name __attribute__((alias("weft_call_" #name))); \
  MPI_ALIAS(name)                                                                          \
  int weft::mpi::bodies::PMPI_##name

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
// Of the library: it runs for the world model, for sessions, or for both. Written by what starts
// and ends these only.
inline std::atomic<Phase> phase{Phase::before_init};
// relaxed: whoever may call was told that it runs.
inline bool is_running() noexcept {
  return phase.load(std::memory_order_relaxed) == Phase::running;
}

// Raises an error of class `code` (or of a code the program added) on the communicator's error
// handler; null: on that of MPI_COMM_SELF, where errors without an object go (that it has at first,
// in programs with sessions alone). `function` is
// __func__ of the exported function (a leading P is dropped). Returns the code if the handler
// returns. If MPI is not running the message says so instead.
[[nodiscard, gnu::cold]] int raise(Comm* comm, int code, const char* function,
                                   std::string_view text = {});
[[nodiscard, gnu::cold]] int not_running(const char* function);
// For MPI_FUNCTION: raises MPI_ERR_NO_MEM on the window, the file or else the communicator; without
// an object if no handle names one.
struct ErrorSite {
  MPI_Win window;
  MPI_File file;
  MPI_Comm comm;
};
[[nodiscard, gnu::cold]] int raise_no_memory(ErrorSite site, const char* function) noexcept;

// The first argument of that type among a function's, or null.
template <class Handle>
Handle handle_among() noexcept {
  return nullptr;
}
template <class Handle, class First, class... Others>
Handle handle_among(First first, Others... others) noexcept {
  if constexpr (std::is_same_v<First, Handle>)
    return first;
  else
    return handle_among<Handle>(others...);
}
template <class... Arguments>
MPI_Comm comm_among(Arguments... arguments) noexcept {
  return handle_among<MPI_Comm>(arguments...);
}
template <class... Arguments>
MPI_Win win_among(Arguments... arguments) noexcept {
  return handle_among<MPI_Win>(arguments...);
}
template <class... Arguments>
MPI_File file_among(Arguments... arguments) noexcept {
  return handle_among<MPI_File>(arguments...);
}
constexpr bool is_function(auto*) noexcept { return true; }

}  // namespace weft::mpi
