// Sessions: starting and ending them, their queries, error handlers and buffers.
#include "mpi/core/session.hpp"

#include <strings.h>
#include <unistd.h>

#include <cstring>

#include "mpi/comm/comm.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

Immortal<HandleTable<MPI_Session, Session, Kind::session>> sessions;

constexpr const char* kProcessSets[] = {"mpi://WORLD", "mpi://SELF"};
constexpr int kNumProcessSets = 2;

struct ThreadLevel {
  int level;
  const char* name;
};
constexpr ThreadLevel kThreadLevels[] = {{MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE"},
                                         {MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED"},
                                         {MPI_THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED"},
                                         {MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE"}};

// The thread level that the hints ask for. Without a hint all threads may call: the libraries of a
// program that have sessions do not know of each other.
int wanted_level(const Info* hints) {
  const std::string* wanted = hints == nullptr ? nullptr : hints->find("thread_level");
  if (wanted != nullptr)
    for (const ThreadLevel& row : kThreadLevels)
      if (*wanted == row.name) return row.level;
  return MPI_THREAD_MULTIPLE;
}

// Raises the error of a call that names no session, on the handler that the call was given.
int raise_with(ErrorHandler* handler, int code, const char* function, std::string_view text) {
  if (handler->action != ErrorHandler::Action::call)
    return call_errhandler(nullptr, handler, code, function, text);
  MPI_Session none = MPI_SESSION_NULL;
  reinterpret_cast<MPI_Session_errhandler_function*>(handler->function)(&none, &code);
  return code;
}

bool is_for_sessions(const ErrorHandler* handler) {
  return handler != nullptr &&
         (handler->action != ErrorHandler::Action::call || handler->object == Kind::session);
}

// Returns the session behind a handle; null after the error was raised, whose code is in `code`.
Session* find_session(MPI_Session handle, int& code, const char* function) {
  Session* session = sessions->find(handle);
  if (session == nullptr)
    code = is_running() ? raise(nullptr, MPI_ERR_SESSION, function)
                        : raise_with(initial_errhandler(), MPI_ERR_SESSION, function,
                                     "there is no session now");
  return session;
}

const GroupPtr& group_of_set(int set) { return set == 0 ? job_comm->group : own_comm->group; }

int attach(MPI_Session handle, void* address, MPI_Count size, const char* function) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, function);
  if (session == nullptr) return code;
  code = attach_buffer(session, address, size);
  return code == MPI_SUCCESS ? code : raise_on(*session, code, function, attach_problem(code));
}

template <class Size>
int detach(MPI_Session handle, void* address_out, Size* size, const char* function) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, function);
  if (session == nullptr) return code;
  if (size == nullptr) return raise_on(*session, MPI_ERR_ARG, function, "size is null");
  MPI_Count wide = 0;
  code = detach_buffer(session, address_out, wide);
  if (code != MPI_SUCCESS) return raise_on(*session, code, function, detach_problem(code));
  *size = static_cast<Size>(wide);
  return MPI_SUCCESS;
}

}  // namespace

int find_process_set(std::string_view name) {
  for (int i = 0; i < kNumProcessSets; ++i)
    if (strcasecmp(std::string(name).c_str(), kProcessSets[i]) == 0) return i;
  return -1;
}

Session::~Session() {
  if (errhandler != nullptr) release(errhandler);
}

int raise_on(Session& session, int code, const char* function, std::string_view text) {
  ErrorHandler* handler;
  {
    const std::lock_guard lock(session.mutex);
    handler = retain(session.errhandler);
  }
  if (handler->action == ErrorHandler::Action::call) {
    MPI_Session handle = session.handle;
    reinterpret_cast<MPI_Session_errhandler_function*>(handler->function)(&handle, &code);
  } else {
    code = call_errhandler(nullptr, handler, code, function, text);
  }
  release(handler);
  return code;
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_CONVERSIONS(Session, MPI_Session, sessions)

MPI_FUNCTION(Session_init)(MPI_Info info, MPI_Errhandler errhandler, MPI_Session* out) {
  ErrorHandler* handler = find_errhandler(errhandler);
  if (!is_for_sessions(handler))
    return raise_with(initial_errhandler(), MPI_ERR_ERRHANDLER, __func__, {});
  if (out == nullptr) return raise_with(handler, MPI_ERR_ARG, __func__, "session is null");
  *out = MPI_SESSION_NULL;
  const Info* hints = find_info(info);
  if (hints == nullptr && info != MPI_INFO_NULL)
    return raise_with(handler, MPI_ERR_INFO, __func__, {});
  auto session = std::make_unique<Session>();
  session->errhandler = retain(handler);
  session->info = copy_of(hints);
  session->handle = sessions->insert(session.get());
  if (session->handle == nullptr) return raise_with(handler, MPI_ERR_NO_MEM, __func__, {});
  if (const Status status = enter_session(wanted_level(hints)); !status) {
    sessions->erase(session->handle);
    return raise_with(handler, error_class(status.code()), __func__, status.text());
  }
  session->thread_level = process->thread_level;
  *out = session.release()->handle;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Session_finalize)(MPI_Session* handle) {
  if (handle == nullptr)
    return raise_with(initial_errhandler(), MPI_ERR_ARG, __func__, "session is null");
  int code = MPI_SUCCESS;
  std::unique_ptr<Session> session(find_session(*handle, code, __func__));
  if (session == nullptr) return code;
  // A forked child does not move its parent's messages.
  if (getpid() == process->pid) drop_buffer(session.get());
  sessions->erase(*handle);
  *handle = MPI_SESSION_NULL;
  leave_session();
  return MPI_SUCCESS;
}

MPI_FUNCTION(Session_get_num_psets)(MPI_Session handle, MPI_Info, int* num) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, __func__);
  if (session == nullptr) return code;
  if (num == nullptr) return raise_on(*session, MPI_ERR_ARG, __func__, "npset_names is null");
  *num = kNumProcessSets;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Session_get_nth_pset)
(MPI_Session handle, MPI_Info, int n, int* pset_len, char* pset_name) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, __func__);
  if (session == nullptr) return code;
  if (pset_len == nullptr || *pset_len < 0 || (*pset_len > 0 && pset_name == nullptr))
    return raise_on(*session, MPI_ERR_ARG, __func__, "pset_len or pset_name is no place for it");
  if (n < 0 || n >= kNumProcessSets)
    return raise_on(*session, MPI_ERR_ARG, __func__, "there is no process set of that number");
  const std::string_view name = kProcessSets[n];
  if (*pset_len > 0) {
    const auto length = std::min(name.size(), static_cast<std::size_t>(*pset_len) - 1);
    std::memcpy(pset_name, name.data(), length);
    pset_name[length] = '\0';
  }
  *pset_len = static_cast<int>(name.size()) + 1;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Session_get_info)(MPI_Session handle, MPI_Info* info_used) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, __func__);
  if (session == nullptr) return code;
  if (info_used == nullptr) return raise_on(*session, MPI_ERR_ARG, __func__, "info_used is null");
  Info used;
  if (session->info != nullptr) used.pairs = session->info->pairs;
  for (const ThreadLevel& row : kThreadLevels)
    if (row.level == session->thread_level) used.set("thread_level", row.name);
  used.set("mpi_memory_alloc_kinds", "mpi,system");
  *info_used = make_info(&used);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Session_get_pset_info)(MPI_Session handle, const char* pset_name, MPI_Info* info) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, __func__);
  if (session == nullptr) return code;
  if (info == nullptr) return raise_on(*session, MPI_ERR_ARG, __func__, "info is null");
  const int set = pset_name != nullptr ? find_process_set(pset_name) : -1;
  if (set < 0) return raise_on(*session, MPI_ERR_ARG, __func__, "no such process set");
  Info known;
  known.set("mpi_size", std::to_string(group_of_set(set)->size()));
  *info = make_info(&known);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Group_from_session_pset)
(MPI_Session handle, const char* pset_name, MPI_Group* newgroup) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, __func__);
  if (session == nullptr) return code;
  if (newgroup == nullptr) return raise_on(*session, MPI_ERR_ARG, __func__, "newgroup is null");
  *newgroup = MPI_GROUP_NULL;
  const int set = pset_name != nullptr ? find_process_set(pset_name) : -1;
  if (set < 0) return raise_on(*session, MPI_ERR_ARG, __func__, "no such process set");
  const MPI_Group made = make_group_handle(
      std::make_shared<Group>(std::span<const int>(group_of_set(set)->members()), session));
  if (made == nullptr) return raise_on(*session, MPI_ERR_NO_MEM, __func__);
  *newgroup = made;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Session_create_errhandler)
(MPI_Session_errhandler_function* function, MPI_Errhandler* errhandler) {
  if (function == nullptr || errhandler == nullptr)
    return raise_with(initial_errhandler(), MPI_ERR_ARG, __func__,
                      "the function or errhandler is null");
  *errhandler = make_errhandler(Kind::session, reinterpret_cast<void (*)()>(function));
  return MPI_SUCCESS;
}

MPI_FUNCTION(Session_set_errhandler)(MPI_Session handle, MPI_Errhandler errhandler) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, __func__);
  if (session == nullptr) return code;
  ErrorHandler* handler = find_errhandler(errhandler);
  if (!is_for_sessions(handler)) return raise_on(*session, MPI_ERR_ERRHANDLER, __func__);
  ErrorHandler* old;
  {
    const std::lock_guard lock(session->mutex);
    old = std::exchange(session->errhandler, retain(handler));
  }
  release(old);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Session_get_errhandler)(MPI_Session handle, MPI_Errhandler* errhandler) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, __func__);
  if (session == nullptr) return code;
  if (errhandler == nullptr) return raise_on(*session, MPI_ERR_ARG, __func__, "errhandler is null");
  const std::lock_guard lock(session->mutex);
  *errhandler = give(session->errhandler);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Session_call_errhandler)(MPI_Session handle, int errorcode) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, __func__);
  if (session == nullptr) return code;
  // The handler is called whatever it returns; the call itself succeeded.
  static_cast<void>(raise_on(*session, errorcode, __func__));
  return MPI_SUCCESS;
}

MPI_FUNCTION(Session_attach_buffer)(MPI_Session session, void* buffer, int size) {
  return attach(session, buffer, size, __func__);
}
MPI_FUNCTION(Session_attach_buffer_c)(MPI_Session session, void* buffer, MPI_Count size) {
  return attach(session, buffer, size, __func__);
}
MPI_FUNCTION(Session_detach_buffer)(MPI_Session session, void* buffer_addr, int* size) {
  return detach(session, buffer_addr, size, __func__);
}
MPI_FUNCTION(Session_detach_buffer_c)(MPI_Session session, void* buffer_addr, MPI_Count* size) {
  return detach(session, buffer_addr, size, __func__);
}
MPI_FUNCTION(Session_flush_buffer)(MPI_Session handle) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, __func__);
  if (session == nullptr) return code;
  wait_progressing([session] { return is_drained(session); });
  return MPI_SUCCESS;
}
MPI_FUNCTION(Session_iflush_buffer)(MPI_Session handle, MPI_Request* request) {
  int code = MPI_SUCCESS;
  Session* session = find_session(handle, code, __func__);
  if (session == nullptr) return code;
  code = flush_in_background(own_comm, session, request);
  return code == MPI_SUCCESS ? code : raise_on(*session, code, __func__);
}
