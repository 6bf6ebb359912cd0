// The profiling library: takes over every function of mpi.h that does work, by the names that MPI
// leaves to tools, and calls the library's own by PMPI_. Loaded by LD_PRELOAD (weft-profile,
// weftrun --profile) or linked before libmpi_abi.
#include <cstddef>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)
#include "mpi-ext.h"
#pragma GCC visibility pop

#include "arguments.hpp"
#include "counts.hpp"
#include "message_calls.hpp"
#include "messages.hpp"
#include "report.hpp"

namespace weft::profile {
namespace {

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
// Collectives in which each member waits for all others, and those in which they wait for the root.
constexpr std::string_view kJoins[] = {
    "Barrier",  "Allreduce", "Reduce_scatter", "Reduce_scatter_block", "Allgather", "Allgatherv",
    "Alltoall", "Alltoallv", "Alltoallw"};
constexpr std::string_view kFromRoot[] = {"Bcast", "Scatter", "Scatterv"};
// Functions that return a communicator that its members have not made in one order.
constexpr std::string_view kMakeNone[] = {"Comm_free", "Comm_disconnect", "Comm_idup",
                                          "Comm_idup_with_info", "Comm_get_parent"};

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
    if (const MPI_Request* request = first_of<MPI_Request*>(nullptr, arguments...)) {
      forget_persistent(*request);
      forget_request(*request);
    }
  } else if constexpr (kName == "Start" || kName == "Startall") {
    const MPI_Request* requests = first_of<MPI_Request*>(nullptr, arguments...);
    const int count = kName == "Start" ? 1 : first_of<int>(0, arguments...);
    for (int i = 0; requests != nullptr && i < count; ++i) {
      log_start(requests[i], now_ns());
      if (is_counting()) note_start(requests[i]);
    }
  }
}

template <std::size_t function, class... Arguments>
int call(int (*own)(Arguments...), Arguments... arguments) {
  constexpr std::string_view kName = plain(kFunctionNames[function]);
  note_before<function>(arguments...);
  int code = MPI_SUCCESS;
  const std::uint64_t start = now_ns();
  std::uint64_t end = start;
  if constexpr (is_one_of(kName, kCompletions)) {
    code = call_completing<function>(own, start, end, arguments...);
  } else if constexpr (is_one_of(kName, kWithStatus)) {
    code = call_with_status(
        own, end, [&](Arguments... given) { log_messages<function>(start, end, given...); },
        arguments...);
  } else {
    code = own(arguments...);
    end = now_ns();
    if (code == MPI_SUCCESS) log_messages<function>(start, end, arguments...);
  }
  if constexpr (!is_one_of(kName, kMakeNone))
    if (const MPI_Comm* made = first_of<MPI_Comm*>(nullptr, arguments...);
        code == MPI_SUCCESS && made != nullptr)
      note_made(*made, first_of<MPI_Comm>(MPI_COMM_NULL, arguments...));
  if (!is_counting()) return code;
  // A call that failed may have invalid arguments.
  if (code != MPI_SUCCESS) {
    note_call(function, MPI_COMM_NULL, end - start, 0);
    return code;
  }
  const MPI_Comm comm = first_of<MPI_Comm>(MPI_COMM_NULL, arguments...);
  note_call(function, comm, end - start, note_data<function>(arguments...));
  if constexpr (is_one_of(kName, kJoins)) note_joined(function, comm, kNoRoot, end - start);
  if constexpr (is_one_of(kName, kFromRoot))
    note_joined(function, comm, Ints(arguments...).last(0), end - start);
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
