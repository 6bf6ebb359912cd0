// The checking library: takes over every function of mpi.h that does work, by the names that MPI
// leaves to tools, and calls the library's own by PMPI_. Loaded by LD_PRELOAD (weft-check,
// weftrun --check) or linked before libmpi_abi.
#include <link.h>
#include <unwind.h>

#include <atomic>
#include <string_view>

#include "tools/weft-check/hooks/arguments.hpp"
#include "tools/weft-check/hooks/collective.hpp"
#include "tools/weft-check/hooks/completion.hpp"
#include "tools/weft-check/hooks/objects.hpp"
#include "tools/weft-check/hooks/point_to_point.hpp"
#include "tools/weft-check/hooks/window.hpp"
#include "tools/weft-check/program/memory.hpp"
#include "tools/weft-check/ranks/accesses.hpp"
#include "tools/weft-check/ranks/channel.hpp"
#include "tools/weft-check/ranks/collectives.hpp"
#include "tools/weft-check/ranks/names.hpp"
#include "tools/weft-check/report.hpp"
#include "tools/weft-check/state/buffers.hpp"
#include "tools/weft-check/state/handles.hpp"
#include "tools/weft-check/state/requests.hpp"
#include "tools/weft-check/threads.hpp"

namespace weft::check {
namespace {

std::atomic<bool> is_open{false};
std::atomic<bool> has_lost{false};  // a process, or a communicator that was revoked

// What was begun with a process that has ended need not be complete at the end.
[[gnu::cold]] void note_error(int code) {
  int error_class = MPI_SUCCESS;
  PMPI_Error_class(code, &error_class);
  if (error_class == MPIX_ERR_PROC_FAILED || error_class == MPIX_ERR_PROC_FAILED_PENDING ||
      error_class == MPIX_ERR_REVOKED || error_class == MPI_ERR_PROC_ABORTED)
    has_lost = true;
}

[[gnu::constructor]] void load() {
  begin_reports();
  begin_memory();
}

template <std::size_t function, class... A>
int call_checked(Own<A...> own, A... a) {
  constexpr std::string_view kName = kPlain<function>;
  if constexpr (is_send(kName) || is_isend(kName) || is_send_init(kName))
    return call_send<function>(own, a...);
  else if constexpr (is_receive(kName))
    return call_receive<function>(own, a...);
  else if constexpr (is_sendrecv(kName))
    return call_sendrecv<function>(own, a...);
  else if constexpr (is_probe(kName))
    return call_probe<function>(own, a...);
  else if constexpr (is_matched_receive(kName))
    return call_matched_receive<function>(own, a...);
  else if constexpr (is_partitioned(kName))
    return call_partitioned<function>(own, a...);
  else if constexpr (is_completion(kName))
    return call_completion<function>(own, a...);
  else if constexpr (is_status_query(kName))
    return call_status_query<function>(own, a...);
  else if constexpr (!collective_of(kName).empty())
    return call_collective<function>(own, a...);
  else if constexpr (is_put(kName) || is_get(kName))
    return call_access<function>(own, a...);
  else if constexpr (is_atomic(kName))
    return call_atomic<function>(own, a...);
  else if constexpr (is_window_sync(kName))
    return call_window_sync<function>(own, a...);
  else if constexpr (makes_window(kName))
    return call_window_made<function>(own, a...);
  else if constexpr (kName == "Win_free")
    return call_window_free(own, a...);
  else
    return call_object<function>(own, a...);
}

// Functions that any thread may call at every level.
constexpr bool is_for_any_thread(std::string_view name) {
  return is_one_of(name, "Initialized", "Finalized", "Get_version", "Get_library_version",
                   "Query_thread", "Is_thread_main", "Error_string", "Error_class");
}

// The library of Fortran's functions, which call those of C.
struct Between {
  std::uintptr_t begin = 0, end = 0;
  bool has(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at >= begin && at < end;
  }
};
Between fortran;

int find_fortran(dl_phdr_info* info, std::size_t, void*) {
  if (std::string_view(info->dlpi_name).find("/libmpi_fortran.so") == std::string_view::npos)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    fortran.begin = info->dlpi_addr + header.p_vaddr;
    fortran.end = fortran.begin + header.p_memsz;
  }
  return 1;
}

_Unwind_Reason_Code pass_fortran(_Unwind_Context* context, void* found) {
  const auto*& at = *static_cast<const void**>(found);
  const auto* const address = reinterpret_cast<const void*>(_Unwind_GetIP(context));
  const bool was_there = fortran.has(at);
  at = address;
  return was_there && !fortran.has(address) ? _URC_END_OF_STACK : _URC_NO_REASON;
}

// The place in the program that a call comes from.
const void* caller_in_program(const void* caller) {
  if (!fortran.has(caller)) [[likely]]
    return caller;
  const void* found = nullptr;
  _Unwind_Backtrace(pass_fortran, &found);
  return found;
}

// The call that this thread was in before belongs to the program's function that calls now.
class Entry {
 public:
  Entry(const char* name, std::uint8_t number, const void* caller) : before_(current_call) {
    current_call = {name, caller, number};
  }
  ~Entry() { current_call = before_; }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  Call before_;
  OwnMemory own_memory_;
};

template <std::size_t function, class... A>
[[gnu::always_inline]] inline int call(const void* caller, Own<A...> own, A... a) {
  // Before and after, the library says what is wrong; programs with sessions alone are not checked.
  if (!is_open.load(std::memory_order_relaxed)) return own(a...);
  constexpr std::uint8_t kNumber = number_of_call(kFunctionNames[function]);
  const Entry entry(kFunctionNames[function], kNumber, caller_in_program(caller));
  if constexpr (is_for_any_thread(kPlain<function>)) return own(a...);
  if constexpr (kPlain<function>.starts_with("Info_")) return call_object<function>(own, a...);
  const InCall in_call;
  const int code = call_checked<function>(own, a...);
  if (code != MPI_SUCCESS) [[unlikely]]
    note_error(code);
  return code;
}

// Always true; its use makes the compiler define the function.
constexpr bool is_function(auto*) { return true; }

enum Function : std::size_t {
#define WEFT_CHECKED(name) k##name,
#include "functions.inc"
#undef WEFT_CHECKED
};

void on_free(const Block& block, const void* caller) {
  check_freed(block.begin, block.begin + block.bytes, caller);
  check_freed_window(block.begin, block.begin + block.bytes, caller);
}

void take_note(Topic topic, int from, const Note& note) {
  switch (topic) {
    case Topic::message:
      return take_message_note(from, note);
    case Topic::collective:
      return take_collective_note(from, note);
    case Topic::access:
      return take_access_note(from, note);
  }
}

// Called when MPI_COMM_WORLD exists.
void begin_checks() {
  int rank = 0, provided = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Query_thread(&provided);
  set_rank(rank);
  set_thread_level(provided);
  dl_iterate_phdr(find_fortran, nullptr);
  open_channel(take_note);
  set_on_free(on_free);
  is_open = true;
}

void end_checks() {
  set_on_free(nullptr);
  // Others wait for what this rank has to tell, whatever it has lost itself.
  const bool has_all = drain_channel() && !has_lost;
  if (has_all) {
    report_requests();
    report_unreceived();
    report_incomplete_collectives();
  }
  report_handles();
  is_open = false;
}

}  // namespace
}  // namespace weft::check

// Defines a function of the same type as Pname that takes over name. Only a template can
// take the parameters from a function's type; see MPI_FUNCTION in mpi/core/call.hpp.
#define WEFT_CHECKED(name)                                                                      \
  extern "C" decltype(P##name) weft_check_##name;                                               \
  template <class Type>                                                                         \
  struct Export_##name;                                                                         \
  template <class... Arguments>                                                                 \
  struct Export_##name<int(Arguments...)> {                                                     \
    friend int weft_check_##name(Arguments... arguments) {                                      \
      return weft::check::call<weft::check::k##name, Arguments...>(__builtin_return_address(0), \
                                                                   P##name, arguments...);      \
    }                                                                                           \
  };                                                                                            \
  template struct Export_##name<decltype(P##name)>;                                             \
  static_assert(weft::check::is_function(weft_check_##name));                                   \
  extern "C" decltype(P##name) name __attribute__((alias("weft_check_" #name)));
#include "functions.inc"
#undef WEFT_CHECKED

#pragma GCC visibility push(default)

extern "C" int MPI_Init(int* argc, char*** argv) {
  const weft::check::Entry entry("MPI_Init", 0, __builtin_return_address(0));
  const int code = PMPI_Init(argc, argv);
  if (code == MPI_SUCCESS) weft::check::begin_checks();
  return code;
}

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const weft::check::Entry entry("MPI_Init_thread", 0, __builtin_return_address(0));
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  if (code == MPI_SUCCESS) weft::check::begin_checks();
  return code;
}

extern "C" int MPI_Finalize(void) {
  const weft::check::Entry entry("MPI_Finalize", 0, __builtin_return_address(0));
  weft::check::end_checks();
  return PMPI_Finalize();
}

#pragma GCC visibility pop
