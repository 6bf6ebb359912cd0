#include "mpi/core/errors.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/log.hpp"
#include "base/mpi_name.hpp"
#include "base/settings.hpp"
#include "base/shortage.hpp"
#include "job/boards.hpp"
#include "lanes/lanes.hpp"
#include "mpi/comm/comm.hpp"
#include "mpi/core/error_names.hpp"
#include "mpi/file/file.hpp"
#include "mpi/window/window.hpp"

namespace weft::mpi {
namespace {

constexpr Kind kAnyKind = Kind::errhandler;  // marks the predefined handlers

ErrorHandler fatal_handler{ErrorHandler::Action::fatal, kAnyKind, nullptr, 1, MPI_ERRORS_ARE_FATAL};
ErrorHandler abort_handler{ErrorHandler::Action::abort, kAnyKind, nullptr, 1, MPI_ERRORS_ABORT};
ErrorHandler return_handler{ErrorHandler::Action::give_back, kAnyKind, nullptr, 1,
                            MPI_ERRORS_RETURN};
constexpr std::pair<ErrorHandler*, std::string_view> kNames[] = {
    {&fatal_handler, "mpi_errors_are_fatal"},
    {&abort_handler, "mpi_errors_abort"},
    {&return_handler, "mpi_errors_return"},
};

Immortal<HandleTable<MPI_Errhandler, ErrorHandler, Kind::errhandler>> handlers;

bool is_static(const ErrorHandler* handler) { return handler->object == kAnyKind; }

// Error classes and codes that the program added. A class is a code whose class is itself.
struct Added {
  struct Entry {
    int error_class;
    std::string text;
    int num_codes = 0;  // of a class: the number of codes that still name it
  };
  std::mutex mutex;
  std::map<int, Entry> entries;
  int next = MPI_ERR_LASTCODE + 1;
};
Immortal<Added> added;

constexpr ErrorName kErrorNames[] = {
#define WEFT_ERROR(name, text) {MPI_##name, "MPI_" #name, text},
#include "mpi/core/error_names.inc"
#undef WEFT_ERROR
    {MPIX_ERR_PROC_FAILED, "MPIX_ERR_PROC_FAILED", "a process that is needed has failed"},
    {MPIX_ERR_PROC_FAILED_PENDING, "MPIX_ERR_PROC_FAILED_PENDING",
     "a process that may be the sender has failed, and the receive waits on"},
    {MPIX_ERR_REVOKED, "MPIX_ERR_REVOKED", "the communicator, window or file is revoked"},
};

const ErrorName* find_name(int code) {
  for (const ErrorName& row : kErrorNames)
    if (row.code == code) return &row;
  return nullptr;
}

int own_rank() { return engine == nullptr ? -1 : engine->rank(); }

}  // namespace

int error_class_of_failure(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return MPI_SUCCESS;
    case Code::bad_argument:
      return MPI_ERR_ARG;
    case Code::no_memory:
      return MPI_ERR_NO_MEM;
    case Code::truncated:
      return MPI_ERR_TRUNCATE;
    case Code::peer_lost:
    case Code::timed_out:
      return MPIX_ERR_PROC_FAILED;
    case Code::unsupported:
      return MPI_ERR_UNSUPPORTED_OPERATION;
    case Code::again:
    case Code::internal:
    case Code::corrupt:
      return MPI_ERR_INTERN;
    case Code::bad_setting:
    case Code::not_permitted:
    case Code::not_found:
    case Code::cancelled:
    case Code::outcome_unknown:
    case Code::exists:
      break;
  }
  return MPI_ERR_OTHER;
}

std::string error_text(int code) {
  if (const ErrorName* row = find_name(code)) return fmt::format("{}: {}", row->name, row->text);
  std::lock_guard lock(added->mutex);
  const auto found = added->entries.find(code);
  return found == added->entries.end() ? std::string() : found->second.text;
}

// Names the lost processes that this process has noticed or that were reported to it; empty: none.
static std::string lost_text() {
  if (engine == nullptr) return {};
  std::vector<int> lost = engine->lost();
  if (const int reported = engine->last_reported_lost();
      reported >= 0 && std::find(lost.begin(), lost.end(), reported) == lost.end())
    lost.push_back(reported);
  // An access to memory knows it before the messages do.
  if (lost.empty())
    for (int rank = 0; rank < engine->job().size(); ++rank)
      if (rank != engine->job().rank() && engine->loss_of(rank) != Loss::other)
        lost.push_back(rank);
  return lost.empty() ? std::string() : engine->describe_lost(lost);
}

int last_used_code() {
  std::lock_guard lock(added->mutex);
  return added->entries.empty() ? MPI_ERR_LASTCODE : added->entries.rbegin()->first;
}

void end_job(int exit_code, const std::string& message) {
  // Flush first: what the program printed so far is worth more than a clean stack.
  std::fflush(nullptr);
  log::write(LogLevel::error, own_rank(), message);
  // The launcher need not repeat the message.
  if (process->job != nullptr)
    (void)or_no_memory([&] { process->job->board().abort(exit_code, {}); });
  _exit(exit_code);
}

int call_errhandler(Comm* comm, ErrorHandler* handler, int code, const char* function,
                    std::string_view text) {
  switch (handler->action) {
    case ErrorHandler::Action::give_back:
      return code;
    case ErrorHandler::Action::call: {
      MPI_Comm handle = comm != nullptr        ? comm->handle
                        : self_comm != nullptr ? MPI_COMM_SELF
                                               : MPI_COMM_NULL;
      reinterpret_cast<MPI_Comm_errhandler_function*>(handler->function)(&handle, &code);
      return code;
    }
    case ErrorHandler::Action::fatal:
    case ErrorHandler::Action::abort:
      break;
  }
  std::string where;
  if (comm != nullptr && !comm->name.empty()) where = fmt::format(" on {}", comm->name);
  const std::string what = error_text(code);
  // Collectives, and calls that complete several requests, do not know which peer they failed for.
  const std::string lost =
      text.empty() && (code == MPIX_ERR_PROC_FAILED || code == MPI_ERR_IN_STATUS) ? lost_text()
                                                                                  : std::string();
  if (!lost.empty()) text = lost;
  // This exit code shows the launcher that the lost process is the cause.
  static_assert(kPeerLostCode == MPI_ERR_PROC_ABORTED);
  if (!lost.empty() || code == MPIX_ERR_PROC_FAILED) code = kPeerLostCode;
  end_job(code > 0 && code < 256 ? code : 1,
          fmt::format("{}{}: {}{}{}", without_p(function), where,
                      what.empty() ? fmt::format("error {}", code) : what, text.empty() ? "" : ": ",
                      text));
}

namespace {

ErrorHandler* handler_of(Comm* comm) {
  std::lock_guard lock(comm->mutex);
  return retain(comm->errhandler);
}

}  // namespace

int raise(Comm* comm, int code, const char* function, std::string_view text) {
  if (!is_running()) return not_running(function);
  // Revoked communicators have no valid ranks.
  if (comm != nullptr && code == MPI_ERR_RANK && comm->is_revoked.load(std::memory_order_relaxed))
    code = MPIX_ERR_REVOKED;
  Comm* site = comm == nullptr ? own_comm : comm;
  ErrorHandler* handler = handler_of(site);
  if (comm == nullptr && handler == default_errhandler()) {
    // Before MPI-4.0 such errors went to MPI_COMM_WORLD. A program that sets a handler there, and
    // none for MPI_COMM_SELF, still expects it to be called.
    site = job_comm;
    handler = handler_of(site);
  }
  const int result = call_errhandler(site, handler, code, function, text);
  release(handler);
  return result;
}

// A program may call again and again although its calls end at once.
void hear_of_revocations() {
  engine->progress();
  engine->idle();
}

int raise_status(Comm* comm, const Status& status, const char* function) {
  if (status.ok()) return MPI_SUCCESS;
  std::string text = status.text();
  // The bare name of the code adds nothing to the class.
  if (status == Code::peer_lost && text == code_name(Code::peer_lost)) text.clear();
  if (status == Code::peer_lost) hear_of_revocations();
  const int error = error_class(status.code(), comm);
  if (error == MPIX_ERR_REVOKED) text.clear();
  return raise(comm, error, function, text);
}

int error_class_of_failure(Code code, const Comm* comm) noexcept {
  const bool is_revoked = comm != nullptr && comm->is_revoked.load(std::memory_order_relaxed);
  return is_revoked && (code == Code::peer_lost || code == Code::cancelled)
             ? MPIX_ERR_REVOKED
             : error_class_of_failure(code);
}

int not_running(const char* function) {
  // No communicator exists whose handler could be called.
  if (initial_errhandler() == &return_handler) return MPI_ERR_OTHER;
  end_job(MPI_ERR_OTHER,
          fmt::format("{} was called {}", without_p(function),
                      phase == Phase::before_init ? "before MPI_Init" : "after MPI_Finalize"));
}

int raise_no_memory(ErrorSite site, const char* function) noexcept {
  try {
    if (Window* object = find_window(site.window))
      return raise_on(object, MPI_ERR_NO_MEM, function);
    if (File* object = find_file(site.file)) return raise_on(object, MPI_ERR_NO_MEM, function);
    if (is_running()) return raise(find_comm(site.comm), MPI_ERR_NO_MEM, function);
    end_job(MPI_ERR_NO_MEM, fmt::format("{} has no memory", without_p(function)));
  } catch (const std::bad_alloc&) {
    // There is no memory even for the message of a handler that ends the job.
    constexpr std::string_view kText = "weft: out of memory\n";
    (void)!write(STDERR_FILENO, kText.data(), kText.size());
    _exit(MPI_ERR_NO_MEM);
  }
}

ErrorHandler* find_errhandler(MPI_Errhandler handle) {
  if (handle == MPI_ERRORS_ARE_FATAL) return &fatal_handler;
  if (handle == MPI_ERRORS_ABORT) return &abort_handler;
  if (handle == MPI_ERRORS_RETURN) return &return_handler;
  ErrorHandler* handler = handlers->find(handle);
  return handler != nullptr && handler->given.load(std::memory_order_relaxed) > 0 ? handler
                                                                                  : nullptr;
}

MPI_Errhandler give(ErrorHandler* handler) {
  if (!is_static(handler)) handler->given.fetch_add(1, std::memory_order_relaxed);
  return retain(handler)->handle;
}

ErrorHandler* default_errhandler() { return &fatal_handler; }

ErrorHandler* initial_errhandler() {
  static ErrorHandler* const handler = [] {
    Settings settings;
    if (!Settings::from_environment(environ, settings)) return &fatal_handler;
    return find_errhandler(settings.text(Setting::initial_errhandler));
  }();
  return handler;
}

ErrorHandler* find_errhandler(std::string_view name) {
  for (const auto& [handler, known] : kNames)
    if (name == known) return handler;
  return nullptr;
}

std::string_view name_of(const ErrorHandler* predefined) {
  for (const auto& [handler, known] : kNames)
    if (handler == predefined) return known;
  return {};
}

ErrorHandler* retain(ErrorHandler* handler) {
  if (!is_static(handler)) handler->uses.fetch_add(1, std::memory_order_relaxed);
  return handler;
}

void release(ErrorHandler* handler) {
  if (is_static(handler)) return;
  // acq_rel: the last user sees what the others did before they let go.
  if (handler->uses.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  handlers->erase(handler->handle);
  delete handler;
}

MPI_Errhandler make_errhandler(Kind object, void (*function)()) {
  std::unique_ptr<ErrorHandler> handler(
      new ErrorHandler{ErrorHandler::Action::call, object, function, 1, nullptr});
  handler->handle = handlers->insert(handler.get());
  return handler.release()->handle;
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_CONVERSIONS(Errhandler, MPI_Errhandler, handlers)

MPI_FUNCTION(Errhandler_free)(MPI_Errhandler* errhandler) {
  if (errhandler == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "errhandler is null");
  ErrorHandler* handler = find_errhandler(*errhandler);
  if (handler == nullptr) return raise(nullptr, MPI_ERR_ERRHANDLER, __func__);
  if (!is_static(handler)) {
    // The program must not free the handler more often than it got it: the references of
    // communicators are not the program's.
    int given = handler->given.load(std::memory_order_relaxed);
    do {
      if (given == 0) return raise(nullptr, MPI_ERR_ERRHANDLER, __func__);
    } while (!handler->given.compare_exchange_weak(given, given - 1, std::memory_order_relaxed));
  }
  release(handler);
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Error_class)(int errorcode, int* errorclass) {
  if (errorclass == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "errorclass is null");
  if (find_name(errorcode) != nullptr) {
    *errorclass = errorcode;
    return MPI_SUCCESS;
  }
  {
    std::lock_guard lock(added->mutex);
    const auto found = added->entries.find(errorcode);
    if (found != added->entries.end()) {
      *errorclass = found->second.error_class;
      return MPI_SUCCESS;
    }
  }
  return raise(nullptr, MPI_ERR_ARG, __func__, "no such error code");
}

MPI_FUNCTION(Error_string)(int errorcode, char* string, int* resultlen) {
  if (string == nullptr || resultlen == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "string or resultlen is null");
  bool known = find_name(errorcode) != nullptr;
  if (!known) {
    std::lock_guard lock(added->mutex);
    known = added->entries.count(errorcode) != 0;
  }
  if (!known) return raise(nullptr, MPI_ERR_ARG, __func__, "no such error code");
  std::string text = error_text(errorcode);
  if (const std::string lost = errorcode == MPIX_ERR_PROC_FAILED ? lost_text() : std::string();
      !lost.empty())
    text += ": " + lost;
  text.resize(std::min<std::size_t>(text.size(), MPI_MAX_ERROR_STRING - 1));
  std::memcpy(string, text.c_str(), text.size() + 1);
  *resultlen = static_cast<int>(text.size());
  return MPI_SUCCESS;
}

MPI_FUNCTION(Add_error_class)(int* errorclass) {
  MPI_MUST_RUN();
  if (errorclass == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "errorclass is null");
  std::lock_guard lock(added->mutex);
  const int code = added->next;
  added->entries[code] = {code, {}};
  *errorclass = added->next++;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Add_error_code)(int errorclass, int* errorcode) {
  MPI_MUST_RUN();
  if (errorcode == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "errorcode is null");
  bool known = find_name(errorclass) != nullptr;
  {
    std::lock_guard lock(added->mutex);
    const auto found = added->entries.find(errorclass);
    const bool is_added = found != added->entries.end() && found->second.error_class == errorclass;
    if (known || is_added) {
      const int code = added->next;
      added->entries[code] = {errorclass, {}};
      if (is_added) ++found->second.num_codes;
      *errorcode = added->next++;
      return MPI_SUCCESS;
    }
  }
  return raise(nullptr, MPI_ERR_ARG, __func__, "no such error class");
}

MPI_FUNCTION(Add_error_string)(int errorcode, const char* string) {
  MPI_MUST_RUN();
  if (string == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "string is null");
  {
    std::lock_guard lock(added->mutex);
    const auto found = added->entries.find(errorcode);
    if (found != added->entries.end()) {
      found->second.text = string;
      return MPI_SUCCESS;
    }
  }
  return raise(nullptr, MPI_ERR_ARG, __func__, "no error code that the program added");
}

namespace {

// Removes a class (that no code names any more) or a code, without an error string.
int remove_added(int number, bool is_class, const char* function) {
  MPI_MUST_RUN_IN(function);
  const char* problem = nullptr;
  {
    std::lock_guard lock(added->mutex);
    const auto found = added->entries.find(number);
    if (found == added->entries.end() || (found->second.error_class == number) != is_class) {
      problem = "not one that the program added";
    } else if (found->second.num_codes != 0) {
      problem = "error codes of that class still exist";
    } else if (!found->second.text.empty()) {
      problem = "it still has an error string: MPI_Remove_error_string comes first";
    } else {
      const auto owner = added->entries.find(found->second.error_class);
      if (!is_class && owner != added->entries.end()) --owner->second.num_codes;
      added->entries.erase(found);
    }
  }
  return problem == nullptr ? MPI_SUCCESS : raise(nullptr, MPI_ERR_ARG, function, problem);
}

}  // namespace

MPI_FUNCTION(Remove_error_class)(int errorclass) {
  return remove_added(errorclass, true, __func__);
}
MPI_FUNCTION(Remove_error_code)(int errorcode) { return remove_added(errorcode, false, __func__); }

MPI_FUNCTION(Remove_error_string)(int errorcode) {
  MPI_MUST_RUN();
  {
    std::lock_guard lock(added->mutex);
    const auto found = added->entries.find(errorcode);
    if (found != added->entries.end() && !found->second.text.empty()) {
      found->second.text.clear();
      return MPI_SUCCESS;
    }
  }
  return raise(nullptr, MPI_ERR_ARG, __func__, "no error string that the program added");
}
