// The profiling library: takes over every function of mpi.h that does work, by the names that MPI
// leaves to tools, and calls the library's own by PMPI_. Loaded by LD_PRELOAD (weft-profile,
// weftrun --profile) or linked before libmpi_abi.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#pragma GCC visibility push(default)
#include "mpi-ext.h"
#pragma GCC visibility pop

#include "counts.hpp"
#include "report.hpp"

namespace weft::profile {
namespace {

constexpr bool is_one_of(std::string_view name, const auto& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}
// Strips _c: MPI_Send_c moves the same data as MPI_Send.
constexpr std::string_view plain(std::string_view name) {
  name.remove_prefix(4);
  if (name.ends_with("_c")) name.remove_suffix(2);
  return name;
}

// Functions whose first arguments describe data sent to a rank: buffer, count, datatype, rank.
constexpr std::string_view kSends[] = {"Send",
                                       "Bsend",
                                       "Ssend",
                                       "Rsend",
                                       "Isend",
                                       "Ibsend",
                                       "Issend",
                                       "Irsend",
                                       "Sendrecv",
                                       "Isendrecv",
                                       "Sendrecv_replace",
                                       "Isendrecv_replace"};
constexpr std::string_view kPersistentSends[] = {"Send_init", "Bsend_init", "Ssend_init",
                                                 "Rsend_init"};
// Functions whose first count and datatype describe the data that this process gives or gets.
constexpr std::string_view kMoves[] = {"Bcast",
                                       "Ibcast",
                                       "Reduce",
                                       "Ireduce",
                                       "Allreduce",
                                       "Iallreduce",
                                       "Reduce_scatter_block",
                                       "Ireduce_scatter_block",
                                       "Scan",
                                       "Iscan",
                                       "Exscan",
                                       "Iexscan",
                                       "Gather",
                                       "Igather",
                                       "Gatherv",
                                       "Igatherv",
                                       "Allgather",
                                       "Iallgather",
                                       "Allgatherv",
                                       "Iallgatherv",
                                       "Alltoall",
                                       "Ialltoall",
                                       "Neighbor_allgather",
                                       "Ineighbor_allgather",
                                       "Neighbor_allgatherv",
                                       "Ineighbor_allgatherv",
                                       "Neighbor_alltoall",
                                       "Ineighbor_alltoall",
                                       "Put",
                                       "Rput",
                                       "Get",
                                       "Rget",
                                       "Accumulate",
                                       "Raccumulate",
                                       "Get_accumulate",
                                       "Rget_accumulate",
                                       "File_read",
                                       "File_write",
                                       "File_read_at",
                                       "File_write_at",
                                       "File_read_all",
                                       "File_write_all",
                                       "File_read_at_all",
                                       "File_write_at_all",
                                       "File_read_shared",
                                       "File_write_shared",
                                       "File_read_ordered",
                                       "File_write_ordered",
                                       "File_iread",
                                       "File_iwrite",
                                       "File_iread_at",
                                       "File_iwrite_at",
                                       "File_iread_all",
                                       "File_iwrite_all",
                                       "File_iread_at_all",
                                       "File_iwrite_at_all",
                                       "File_iread_shared",
                                       "File_iwrite_shared"};

// Returns the first argument of that type, or `none`.
template <class Wanted>
Wanted first_of(Wanted none) {
  return none;
}
template <class Wanted, class First, class... Others>
Wanted first_of(Wanted none, First first, Others... others) {
  if constexpr (std::is_same_v<First, Wanted>)
    return first;
  else
    return first_of<Wanted>(none, others...);
}

struct Data {
  std::uint64_t bytes = 0;
  int next = MPI_PROC_NULL;  // the number behind the datatype
};

// Finds the data described by a count and a datatype that stand side by side.
[[maybe_unused]] Data data_in() { return {}; }
template <class First, class... Others>
Data data_in(First first, Others... others);
template <class Second, class... Others>
Data data_behind(MPI_Count count, Second second, Others... others) {
  if constexpr (std::is_same_v<Second, MPI_Datatype>) {
    MPI_Count size = 0;
    Data data;
    if (PMPI_Type_size_c(second, &size) == MPI_SUCCESS && count > 0 && size > 0)
      data.bytes = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
    data.next = first_of<int>(MPI_PROC_NULL, others...);
    return data;
  } else {
    return data_in(second, others...);
  }
}
template <class First, class... Others>
Data data_in(First first, Others... others) {
  if constexpr ((std::is_same_v<First, int> ||
                 std::is_same_v<First, MPI_Count>)&&sizeof...(Others) > 0)
    return data_behind(first, others...);
  else
    return data_in(others...);
}

// Records the effects of a call that has succeeded beyond its time.
template <std::size_t function, class... Arguments>
std::uint64_t note_data(Arguments... arguments) {
  constexpr std::string_view kName = plain(kFunctionNames[function]);
  if constexpr (is_one_of(kName, kSends)) {
    const Data data = data_in(arguments...);
    if (data.next == MPI_PROC_NULL) return 0;
    note_message(first_of<MPI_Comm>(MPI_COMM_NULL, arguments...), data.next, data.bytes);
    return data.bytes;
  } else if constexpr (is_one_of(kName, kPersistentSends)) {
    const Data data = data_in(arguments...);
    const MPI_Request* request = first_of<MPI_Request*>(nullptr, arguments...);
    if (data.next != MPI_PROC_NULL)
      note_persistent(*request, first_of<MPI_Comm>(MPI_COMM_NULL, arguments...), data.next,
                      data.bytes);
    return 0;
  } else if constexpr (is_one_of(kName, kMoves)) {
    // In place the count beside it means nothing.
    if (first_of<const void*>(nullptr, arguments...) == MPI_IN_PLACE) return 0;
    return data_in(arguments...).bytes;
  } else if constexpr (kName == "Comm_set_name") {
    rename(first_of<MPI_Comm>(MPI_COMM_NULL, arguments...));
    return 0;
  } else {
    return 0;
  }
}

// Records what must be seen before the call, which may end the object.
template <std::size_t function, class... Arguments>
void note_before(Arguments... arguments) {
  constexpr std::string_view kName = plain(kFunctionNames[function]);
  if constexpr (kName == "Comm_free" || kName == "Comm_disconnect") {
    if (const MPI_Comm* comm = first_of<MPI_Comm*>(nullptr, arguments...)) forget(*comm);
  } else if constexpr (kName == "Request_free") {
    if (const MPI_Request* request = first_of<MPI_Request*>(nullptr, arguments...))
      forget_persistent(*request);
  } else if constexpr (kName == "Start") {
    if (!is_counting()) return;
    if (const MPI_Request* request = first_of<MPI_Request*>(nullptr, arguments...))
      note_start(*request);
  } else if constexpr (kName == "Startall") {
    if (!is_counting()) return;
    const MPI_Request* requests = first_of<MPI_Request*>(nullptr, arguments...);
    const int count = first_of<int>(0, arguments...);
    for (int i = 0; requests != nullptr && i < count; ++i) note_start(requests[i]);
  }
}

template <std::size_t function, class... Arguments>
int call(int (*own)(Arguments...), Arguments... arguments) {
  note_before<function>(arguments...);
  const std::uint64_t start = now_ns();
  const int code = own(arguments...);
  const std::uint64_t ns = now_ns() - start;
  if (!is_counting()) return code;
  // A call that failed may have invalid arguments.
  if (code != MPI_SUCCESS)
    note_call(function, MPI_COMM_NULL, ns, 0);
  else
    note_call(function, first_of<MPI_Comm>(MPI_COMM_NULL, arguments...), ns,
              note_data<function>(arguments...));
  return code;
}

// Always true; its use makes the compiler define the function.
constexpr bool is_function(auto*) { return true; }

enum Function : std::size_t {
#define WEFT_PROFILED(name) k##name,
#include "functions.inc"
#undef WEFT_PROFILED
};

}  // namespace
}  // namespace weft::profile

// Defines a function of the same type as Pname that takes over name. Only a template can
// take the parameters from a function's type; see MPI_FUNCTION in mpi/core/call.hpp.
#define WEFT_PROFILED(name)                                                      \
  extern "C" decltype(P##name) weft_profile_##name;                              \
  template <class Type>                                                          \
  struct Export_##name;                                                          \
  template <class... Arguments>                                                  \
  struct Export_##name<int(Arguments...)> {                                      \
    friend int weft_profile_##name(Arguments... arguments) {                     \
      return weft::profile::call<weft::profile::k##name>(P##name, arguments...); \
    }                                                                            \
  };                                                                             \
  template struct Export_##name<decltype(P##name)>;                              \
  static_assert(weft::profile::is_function(weft_profile_##name));                \
  extern "C" decltype(P##name) name __attribute__((alias("weft_profile_" #name)));
#include "functions.inc"
#undef WEFT_PROFILED

#pragma GCC visibility push(default)

extern "C" int MPI_Init(int* argc, char*** argv) {
  const int code = PMPI_Init(argc, argv);
  if (code == MPI_SUCCESS) weft::profile::begin(argc != nullptr && *argc > 0 ? (*argv)[0] : "");
  return code;
}

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  if (code == MPI_SUCCESS) weft::profile::begin(argc != nullptr && *argc > 0 ? (*argv)[0] : "");
  return code;
}

extern "C" int MPI_Finalize(void) {
  weft::profile::report();
  return PMPI_Finalize();
}

// By MPI_Pcontrol the program marks the part of interest: 0 stops counting, 1 and more resumes it.
extern "C" int MPI_Pcontrol(const int level, ...) {
  weft::profile::set_counting(level != 0);
  return MPI_SUCCESS;
}

#pragma GCC visibility pop
