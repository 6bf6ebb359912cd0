#include "mpi/core/blocked.hpp"

#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/mpi_name.hpp"
#include "base/os/code_place.hpp"
#include "base/wait.hpp"
#include "mpi/comm/comm.hpp"
#include "mpi/core/request.hpp"

namespace weft::mpi {
namespace {

using blocked::Message;
using blocked::Record;
using blocked::set_text;
using blocked::Waits;

constexpr std::size_t kMostScanned = 1000;  // unmatched messages
constexpr int kMostFrames = 64;

struct Walk {
  const link_map* library;       // this one
  const char* call = nullptr;    // the outermost function of the interface
  const void* caller = nullptr;  // in the program, just before where it goes on
  bool is_of_tool = false;       // a tool of Weft has made the call
  int num_frames = 0;
};

// Tools that stand between the program and this library have functions of the interface's names,
// and so have the calls of Fortran, in lower case.
bool is_between(const char* name) {
  return name != nullptr && (is_mpi_function(name) || std::string_view(name).starts_with("mpi_") ||
                             std::string_view(name).starts_with("pmpi_"));
}

// Weft's own tools, whose functions have no names here.
bool is_of_tool(const char* file) {
  if (file == nullptr) return false;
  const std::string_view path(file);
  return path.ends_with("/libweft_check.so") || path.ends_with("/libweft_profile.so");
}

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* object) {
  Walk& walk = *static_cast<Walk*>(object);
  int is_before = 0;
  std::uintptr_t address = _Unwind_GetIPInfo(context, &is_before);
  if (address == 0 || ++walk.num_frames > kMostFrames) return _URC_END_OF_STACK;
  if (is_before == 0) --address;  // in the call, not behind it
  const void* at = reinterpret_cast<const void*>(address);
  CodePlace place;
  const bool is_known = find_code(at, place);
  if (is_known && place.file == walk.library) {
    if (place.symbol != nullptr && is_mpi_function(place.symbol)) walk.call = place.symbol;
    return _URC_NO_REASON;
  }
  if (walk.call == nullptr) return _URC_END_OF_STACK;  // a thread of the library itself
  if (is_known && is_of_tool(place.file->l_name)) {
    // What the tool has made of the call may have another name.
    walk.is_of_tool = true;
    if (place.symbol != nullptr && is_mpi_function(place.symbol)) walk.call = place.symbol;
    return _URC_NO_REASON;
  }
  if (is_known && is_between(place.symbol)) return _URC_NO_REASON;
  walk.caller = at;
  return _URC_END_OF_STACK;
}

Walk walk_stack() {
  CodePlace own;
  (void)find_code(reinterpret_cast<const void*>(&note_long_wait), own);
  Walk walk{own.file};
  _Unwind_Backtrace(take_frame, &walk);
  return walk;
}

void fill_place(const void* caller, Record& record) {
  CodePlace place;
  if (caller == nullptr || !find_code(caller, place)) return;
  record.offset = reinterpret_cast<std::uintptr_t>(caller) - place.file->l_addr;
  if (place.file->l_name != nullptr && place.file->l_name[0] != '\0') {
    set_text(record.module, place.file->l_name);
  } else {
    char program[sizeof record.module];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
    if (length > 0) set_text(record.module, {program, static_cast<std::size_t>(length)});
  }
  if (place.symbol != nullptr) set_text(record.symbol, place.symbol);
}

// Keeps the communicator of this context, or whose team has it.
class CommOfContext {
 public:
  explicit CommOfContext(std::uint32_t context) : comm_(retain_open(context)) {
    if (comm_ != nullptr) return;
    comm_ = retain_open(context - 1);
    is_team_ = comm_ != nullptr;
  }
  ~CommOfContext() {
    if (comm_ != nullptr) release(comm_);
  }
  CommOfContext(const CommOfContext&) = delete;
  CommOfContext& operator=(const CommOfContext&) = delete;
  Comm* comm() const noexcept { return comm_; }
  bool is_team() const noexcept { return is_team_; }

 private:
  Comm* comm_;
  bool is_team_ = false;
};

// Does not wait for the name: the waiting thread may be the one that holds the lock.
template <std::size_t N>
void fill_name(Comm& comm, char (&to)[N]) {
  const std::unique_lock lock(comm.mutex, std::try_to_lock);
  if (lock.owns_lock()) set_text(to, comm.name);
}

bool has_root(std::string_view call) {
  for (const std::string_view name : {"MPI_Bcast", "MPI_Gather", "MPI_Scatter", "MPI_Reduce"}) {
    if (!call.starts_with(name)) continue;
    const std::string_view rest = call.substr(name.size());
    if (rest.empty() || rest == "v" || rest == "_c" || rest == "v_c") return true;
  }
  return false;
}

void fill_comm(Comm& comm, Record& record) {
  record.context = comm.context;
  record.comm_size = static_cast<std::uint32_t>(comm.size());
  record.is_outside = record.is_outside || is_across(comm);
  fill_name(comm, record.comm);
  for (const Group* group : {comm.group.get(), comm.remote.get()})
    for (int i = 0; group != nullptr && i < group->size(); ++i)
      if (const auto world = static_cast<std::size_t>(group->world(i));
          world < blocked::kMostMembers)
        record.members[world / 64] |= std::uint64_t{1} << world % 64;
      else
        record.is_outside = 1;  // of the record
}

void add_awaited(const tagged::Request& request, Record& record) {
  const std::size_t at = record.num_awaited++;
  if (at >= blocked::kMostMessages) return;
  const tagged::Engine::View view = engine->view(request);
  Message& message = record.awaited[at];
  message.peer = view.peer;
  message.tag = view.tag;
  message.context = request.context;
  message.is_send = view.is_send;
  message.is_moving = view.is_moving;
  message.bytes = view.bytes;
}

// Returns the communicator of the requests, null if there are several or none is known.
const Comm* fill_awaited(const WaitsFor& what, Record& record) {
  record.waits = what.any ? Waits::any : Waits::all;
  const Comm* comm = what.comm;
  if (what.message != nullptr) {
    add_awaited(*what.message, record);
  } else if (what.comm != nullptr) {
    record.num_awaited = 1;
    Message& probed = record.awaited[0];
    probed.peer = what.source == MPI_ANY_SOURCE ? blocked::kAny : what.comm->world(what.source);
    probed.tag = what.tag == MPI_ANY_TAG ? blocked::kAny : what.tag;
    probed.context = what.comm->context;  // as name_comms() leaves it for requests
  }
  bool is_first = true;
  for (int i = 0; i < what.count; ++i) {
    if (what.handles[i] == MPI_REQUEST_NULL) continue;
    const RequestObject* request = find_request(what.handles[i]);
    if (request == nullptr || (request->persistent && !request->active) || request->is_complete())
      continue;
    comm = is_first || comm == request->comm ? request->comm : nullptr;
    is_first = false;
    if (request->kind == RequestObject::Kind::send || request->kind == RequestObject::Kind::receive)
      add_awaited(request->base, record);
    else
      record.waits = Waits::other;  // its own messages are not known here
  }
  return comm;
}

bool is_of_weft_check(std::uint32_t context) {
  const CommOfContext of(context);
  char name[sizeof Record::comm] = "";
  if (of.comm() != nullptr) fill_name(*of.comm(), name);
  return blocked::text_of(name) == "weft-check";
}

// Calls take(message, context) for the unmatched messages that an awaited receive could have been
// meant for, with a lock of the engine held.
template <class Take>
void each_near(const Record& record, Take&& take) {
  const std::size_t num = std::min<std::size_t>(record.num_awaited, blocked::kMostMessages);
  engine->each_unexpected(
      kMostScanned, [&](const tagged::MessageInfo& info, std::uint32_t context) {
        // Of the library itself: collectives have the odd contexts.
        if (info.tag < 0 || context % 2 != 0) return;
        const bool is_near = std::any_of(
            record.awaited.begin(), record.awaited.begin() + static_cast<std::ptrdiff_t>(num),
            [&info](const Message& message) {
              return message.is_send == 0 &&
                     (message.peer == blocked::kAny || message.peer == info.source);
            });
        if (is_near) take(info, context);
      });
}

// has_tool: messages of weft-check may be among them, which the program has not sent.
void fill_unmatched(Record& record, bool has_tool) {
  std::uint32_t tools_context = tagged::kAnyContext;
  if (has_tool) {
    // Communicators cannot be looked up under the engine's lock.
    std::array<std::uint32_t, 16> contexts{};
    std::size_t num = 0;
    each_near(record, [&](const tagged::MessageInfo&, std::uint32_t context) {
      if (num < contexts.size() &&
          std::find(contexts.data(), contexts.data() + num, context) == contexts.data() + num)
        contexts[num++] = context;
    });
    for (std::size_t i = 0; i < num; ++i)
      if (is_of_weft_check(contexts[i])) tools_context = contexts[i];
  }
  each_near(record, [&](const tagged::MessageInfo& info, std::uint32_t context) {
    if (context == tools_context) return;
    const std::size_t at = record.num_unmatched++;
    if (at >= blocked::kMostMessages) return;
    record.unmatched[at].peer = info.source;
    record.unmatched[at].tag = info.tag;
    record.unmatched[at].context = context;
    record.unmatched[at].bytes = info.bytes;
  });
}

// Readers tell communicators apart by their contexts, so all channels of one get the same.
void name_comms(std::array<Message, blocked::kMostMessages>& messages, std::size_t num) {
  for (std::size_t i = 0; i < std::min(num, blocked::kMostMessages); ++i)
    if (const CommOfContext of(messages[i].context); of.comm() != nullptr) {
      fill_name(*of.comm(), messages[i].comm);
      if (!of.is_team()) messages[i].context = of.comm()->context;
    }
}

}  // namespace

void note_long_wait(const tagged::Awaited& awaited, std::uint64_t since_ns,
                    blocked::Slot& slot) noexcept {
  const Walk walk = walk_stack();
  if (walk.call == nullptr || !is_running()) return;
  Record record;
  record.since_ns = since_ns;
  record.rank = engine->rank();
  record.is_threaded = process->thread_level == MPI_THREAD_MULTIPLE;
  set_text(record.call, without_p(walk.call));
  fill_place(walk.caller, record);
  record.is_outside = (awaited.context != tagged::kAnyContext && awaited.context >= kAcrossJobs) ||
                      engine->has_under_way();
  const auto* what = static_cast<const WaitsFor*>(awaited.what);
  const Comm* of_requests = what != nullptr ? fill_awaited(*what, record) : nullptr;
  const std::uint32_t context = of_requests != nullptr ? of_requests->context : awaited.context;
  if (context != tagged::kAnyContext) {
    const CommOfContext of(context);
    if (of.comm() != nullptr) fill_comm(*of.comm(), record);
    if (of.is_team() && what == nullptr) record.waits = Waits::collective;
    if (of.is_team() && has_root(blocked::text_of(record.call)))
      record.root = of.comm()->last_root.load(std::memory_order_relaxed);
  }
  // A tool waits for all processes before it lets its own go on in MPI_Finalize.
  if (walk.is_of_tool && blocked::text_of(record.call) == "MPI_Finalize") {
    if (Comm* world = find_comm(MPI_COMM_WORLD)) fill_comm(*world, record);
    record.waits = Waits::collective;
    record.num_awaited = 0;
  }
  fill_unmatched(record, walk.is_of_tool);
  name_comms(record.awaited, record.num_awaited);
  name_comms(record.unmatched, record.num_unmatched);
  record.seen_ns = now_ns();
  slot.write(record);
}

}  // namespace weft::mpi
