#pragma once
// The start of every function of the MPI interface: its two exported names, the check that MPI
// runs, and raising errors.
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
// the handler of the window, file or communicator among the arguments. So a body gets all its
// memory before it changes any state that lasts; a caller that tries again finds things as they
// were.
//
// A function that takes a handle of an object needs no check of its own that MPI runs: before
// MPI_Init and after MPI_Finalize no handle finds anything, and raise() reports that reason. Others
// start with MPI_MUST_RUN().
#include <atomic>
#include <new>
#include <string_view>
#include <type_traits>

#include "base/trace.hpp"
#include "mpi/core/abi.hpp"

// MPI_name as a weak alias of PMPI_name, which tools may take over.
#define MPI_ALIAS(name) \
  extern "C" decltype(PMPI_##name) MPI_##name __attribute__((weak, alias("PMPI_" #name)));
// MPIX_name and PMPIX_name as further names of the function MPI_name of the same file.
#define MPIX_ALIAS(name)                                                                     \
  extern "C" decltype(PMPIX_##name) PMPIX_##name __attribute__((alias("weft_call_" #name))); \
  extern "C" decltype(PMPIX_##name) MPIX_##name __attribute__((weak, alias("PMPIX_" #name)));
// Defines the MPI function `name`: the parameter list and the body follow the macro. It makes
//   weft::mpi::bodies::PMPI_name   the body that follows, a static function;
//   weft_call_name                 the function of the same type that runs the body by call_body();
//   PMPI_name                      an exported alias of weft_call_name;
//   MPI_name                       a weak alias, see MPI_ALIAS.
// The try and catch of call_body() must be around the body, which is written behind the macro, and
// the macro does not know the parameters. Only a template can take them from a function's type, and
// only a function with a C name can have an alias: hence weft_call_name is a friend function that
// is defined inside a class template, Export_name. The compiler defines such a friend when it is
// used after the template was instantiated: the static_assert is this use.
#define MPI_FUNCTION(name) MPI_FUNCTION_OF(MPI_, name)
// The same for a function that has only the name MPIX_name.
#define MPIX_FUNCTION(name) MPI_FUNCTION_OF(MPIX_, name)
#define MPI_FUNCTION_OF(prefix, name)                                                              \
  namespace weft::mpi::bodies {                                                                    \
  static decltype(::P##prefix##name) P##prefix##name;                                              \
  }                                                                                                \
  extern "C" decltype(P##prefix##name) weft_call_##name;                                           \
  template <class Type>                                                                            \
  struct Export_##name;                                                                            \
  template <class... Parameters>                                                                   \
  struct Export_##name<int(Parameters...)> {                                                       \
    friend int weft_call_##name(Parameters... arguments) {                                         \
      return weft::mpi::call_body("P" #prefix #name, weft::mpi::bodies::P##prefix##name,           \
                                  arguments...);                                                   \
    }                                                                                              \
  };                                                                                               \
  template struct Export_##name<decltype(P##prefix##name)>;                                        \
  static_assert(weft::mpi::is_function(weft_call_##name));                                         \
  extern "C" decltype(P##prefix##name) P##prefix##name __attribute__((alias("weft_call_" #name))); \
  extern "C" decltype(P##prefix##name) prefix##name                                                \
      __attribute__((weak, alias("P" #prefix #name)));                                             \
  int weft::mpi::bodies::P##prefix##name

// Defines MPI_<name>_toint and _fromint of the handles in a table; for use outside namespaces.
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
// The phase of the library, which runs for the world model, for sessions, or for both. Starting and
// ending these write it; nothing else does.
inline std::atomic<Phase> phase{Phase::before_init};
// relaxed: a thread may call only after the program has synchronised it with the start.
inline bool is_running() noexcept {
  return phase.load(std::memory_order_relaxed) == Phase::running;
}

// Raises an error of class `code` (or of a code the program added) on the communicator's error
// handler. null: on that of MPI_COMM_SELF, where errors without an object go; on its initial
// handler in programs with sessions alone. `function` is __func__ of the exported function (a
// leading P is dropped). Returns the code if the handler returns. If MPI is not running the message
// reports that instead.
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

// Returns the first argument of that type among a function's, or null.
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

// Runs the body of an MPI function as a span of the trace. `function` is the exported name, which
// begins with a P; without memory the error is raised on an object among the arguments.
template <class Body, class... Arguments>
[[gnu::always_inline]] inline int call_body(const char* function, Body* body,
                                            Arguments... arguments) {
  const trace::Span span(function + 1);
  try {
    return body(arguments...);
  } catch (const std::bad_alloc&) {
    return raise_no_memory(
        {win_among(arguments...), file_among(arguments...), comm_among(arguments...)}, function);
  }
}
// Always true; its use makes the compiler define the function.
constexpr bool is_function(auto*) noexcept { return true; }

}  // namespace weft::mpi
