// Completing requests: MPI_Wait, MPI_Test and their variants. They take one pass over the handles;
// a complete request costs a lookup.
#include "mpi/core/request.hpp"

namespace weft::mpi {
namespace {

constexpr int kNoError = MPI_SUCCESS;

// The communicator whose handler gets the errors of a request; it is kept alive meanwhile.
class ErrorSite {
 public:
  explicit ErrorSite(const RequestObject* request) : comm_(request->comm) {
    if (comm_ != nullptr) retain(comm_);
  }
  ~ErrorSite() {
    if (comm_ != nullptr) release(comm_);
  }
  ErrorSite(const ErrorSite&) = delete;
  ErrorSite& operator=(const ErrorSite&) = delete;
  Comm* comm() const noexcept { return comm_; }

 private:
  Comm* comm_;
};

inline bool is_idle(const RequestObject* request) noexcept {
  return request->persistent && !request->active;
}

// handles: those among which it is, for others to see what is waited for.
inline void wait_for(RequestObject* request, const MPI_Request* handles, int count) {
  if (request->is_complete()) return;
  const WaitsFor what{.handles = handles, .count = count};
  wait_progressing([request] { return request->is_complete(); }, context_of(*request), &what);
}

// Completes a request that has failed, unless it only pauses (tagged/request.hpp).
int finish_failed(RequestObject* request, MPI_Request* handle, MPI_Status* status) {
  // Its message may be there; nothing else polls for it in a program that only waits for this one.
  if (!request->base.is_over()) progress_once(context_of(*request));
  if (!request->base.is_over()) return read_result(request, status);
  if (request->base.code == Code::peer_lost) hear_of_revocations();
  return finish_request(request, handle, status);
}

// Completes one request for a call that completes one. Raises its error, if any. flag: of a test,
// cleared if the request is not complete after all.
inline int finish_one(RequestObject* request, MPI_Request* handle, MPI_Status* status,
                      const char* function, int* flag = nullptr) {
  if (request->base.is_over() && request->base.code == Code::ok &&
      request->kind != RequestObject::Kind::generalized) [[likely]]
    return finish_request(request, handle, status);
  const ErrorSite site(request);
  if (!request->base.is_over()) progress_once(context_of(*request));
  std::string text;
  if (request->kind <= RequestObject::Kind::receive) text = engine->describe(request->base);
  const int code = finish_failed(request, handle, status);
  if (code == MPI_SUCCESS) return code;
  if (code == MPIX_ERR_PROC_FAILED_PENDING && flag != nullptr) *flag = 0;
  if (code == MPIX_ERR_REVOKED) text.clear();
  if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = code;
  return raise(site.comm(), code, function, text);
}

// Looks up the handles of an array, in which null handles are valid. False: one is not valid.
inline bool are_valid(int count, const MPI_Request* handles) {
  for (int i = 0; i < count; ++i)
    if (handles[i] != MPI_REQUEST_NULL && find_request(handles[i]) == nullptr) return false;
  return true;
}

// Begins every call that completes several requests: pushes out pending sends, checks the array.
inline int check_array(int count, const MPI_Request* handles, const char* function) {
  MPI_MUST_RUN_IN(function);
  engine->push();
  if (count < 0) [[unlikely]]
    return raise(nullptr, MPI_ERR_COUNT, function);
  if (count > 0 && handles == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_ARG, function, "the array of requests is null");
  return MPI_SUCCESS;
}

// The errors of a call that completes several requests; every status reports the error of its own.
class Errors {
 public:
  Errors(MPI_Status* statuses, const char* function) : statuses_(statuses), function_(function) {}
  // Adds the error at `position` in the array of statuses, which is filled up to it.
  void add(Comm* comm, int position, int code) {
    if (code == MPI_SUCCESS) {
      if (failed_ && statuses_ != MPI_STATUSES_IGNORE) statuses_[position].MPI_ERROR = kNoError;
      return;
    }
    if (!failed_) {
      failed_ = true;
      code_ = code;
      comm_ = comm;
      if (comm_ != nullptr) retain(comm_);
      if (statuses_ != MPI_STATUSES_IGNORE)
        for (int i = 0; i < position; ++i) statuses_[i].MPI_ERROR = kNoError;
    }
    if (statuses_ != MPI_STATUSES_IGNORE) statuses_[position].MPI_ERROR = code;
  }
  int conclude() {
    if (!failed_) [[likely]]
      return MPI_SUCCESS;
    // The handler is called with the code that caused this (MPI 5.0, MPI_Comm_create_errhandler).
    (void)raise(comm_, code_, function_);
    if (comm_ != nullptr) release(comm_);
    return MPI_ERR_IN_STATUS;
  }

 private:
  MPI_Status* statuses_;
  const char* function_;
  Comm* comm_ = nullptr;
  int code_ = MPI_SUCCESS;  // the first
  bool failed_ = false;
};

// Completes handle i of an array; `position` is its place in the array of statuses.
inline void finish_in_array(MPI_Request* handle, RequestObject* request, MPI_Status* statuses,
                            int position, Errors& errors) {
  MPI_Status* status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[position];
  if (request->base.is_over() && request->base.code == Code::ok &&
      request->kind != RequestObject::Kind::generalized) [[likely]] {
    finish_request(request, handle, status);
    errors.add(nullptr, position, MPI_SUCCESS);
    return;
  }
  const ErrorSite site(request);
  const int code = finish_failed(request, handle, status);
  errors.add(site.comm(), position, code);
}

inline MPI_Status* at(MPI_Status* statuses, int i) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

// The context in which the requests of an array complete that have not, if it is the same for all.
std::uint32_t context_of(int count, const MPI_Request* handles) {
  std::uint32_t one = tagged::kAnyContext;
  for (int i = 0; i < count && engine->has_vcis(); ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    const RequestObject* request = find_request(handles[i]);
    if (is_idle(request) || request->base.is_over()) continue;
    const std::uint32_t context = mpi::context_of(*request);
    if (context == tagged::kAnyContext ||
        (one != tagged::kAnyContext && tagged::vci_of(context) != tagged::vci_of(one)))
      return tagged::kAnyContext;
    one = context;
  }
  return one;
}

// Returns the index of an array's first complete request, one that only pauses if there is no
// other; -1: none yet, -2: none is active.
int find_complete(int count, const MPI_Request* handles) {
  bool any_active = false;
  int paused = -1;
  for (int i = 0; i < count; ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    const RequestObject* request = find_request(handles[i]);
    if (is_idle(request)) continue;
    if (request->base.is_over()) return i;
    if (request->is_complete() && paused < 0) paused = i;
    any_active = true;
  }
  if (paused >= 0) return paused;
  return any_active ? -1 : -2;
}

// The same once there is one, or none is active.
int wait_for_complete(int count, const MPI_Request* handles) {
  int found = find_complete(count, handles);
  if (found == -1) {
    const WaitsFor what{.handles = handles, .count = count, .any = true};
    wait_progressing(
        [&found, count, handles] { return (found = find_complete(count, handles)) != -1; },
        context_of(count, handles), &what);
  }
  return found;
}

bool all_complete(int count, const MPI_Request* handles) {
  for (int i = 0; i < count; ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    const RequestObject* request = find_request(handles[i]);
    if (!is_idle(request) && !request->is_complete()) return false;
  }
  return true;
}

// Looks for the message of a request that only pauses: nothing else polls for it in a program that
// only asks for its state.
void poll_for_paused(int count, const MPI_Request* handles) {
  for (int i = 0; i < count; ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    const RequestObject* request = find_request(handles[i]);
    if (request->is_complete() && !request->base.is_over()) [[unlikely]]
      return progress_once(context_of(count, handles));
  }
}

void finish_all(int count, MPI_Request* handles, MPI_Status* statuses, Errors& errors) {
  for (int i = 0; i < count; ++i) {
    RequestObject* request = handles[i] == MPI_REQUEST_NULL ? nullptr : find_request(handles[i]);
    if (request == nullptr || is_idle(request)) {
      fill_empty(at(statuses, i));
      errors.add(nullptr, i, MPI_SUCCESS);
    } else {
      finish_in_array(&handles[i], request, statuses, i, errors);
    }
  }
}

// Completes every request that is complete. Returns how many.
int finish_some(int count, MPI_Request* handles, int* indices, MPI_Status* statuses,
                Errors& errors) {
  int done = 0;
  for (int i = 0; i < count; ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    RequestObject* request = find_request(handles[i]);
    if (is_idle(request) || !request->is_complete()) continue;
    indices[done] = i;
    finish_in_array(&handles[i], request, statuses, done, errors);
    ++done;
  }
  return done;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Wait)(MPI_Request* request, MPI_Status* status) {
  if (request == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_ARG, __func__, "request is null");
  if (*request == MPI_REQUEST_NULL) {
    MPI_MUST_RUN();
    fill_empty(status);
    return MPI_SUCCESS;
  }
  RequestObject* object = find_request(*request);
  if (object == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_REQUEST, __func__);
  engine->push();
  if (is_idle(object)) {
    fill_empty(status);
    return MPI_SUCCESS;
  }
  wait_for(object, request, 1);
  return finish_one(object, request, status, __func__);
}

MPI_FUNCTION(Test)(MPI_Request* request, int* flag, MPI_Status* status) {
  if (request == nullptr || flag == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_ARG, __func__, "request or flag is null");
  if (*request == MPI_REQUEST_NULL) {
    MPI_MUST_RUN();
    *flag = 1;
    fill_empty(status);
    return MPI_SUCCESS;
  }
  RequestObject* object = find_request(*request);
  if (object == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_REQUEST, __func__);
  engine->push();
  if (is_idle(object)) {
    *flag = 1;
    fill_empty(status);
    return MPI_SUCCESS;
  }
  if (!object->is_complete()) {
    progress_once(context_of(*object));
    if (!object->is_complete()) {
      *flag = 0;
      return MPI_SUCCESS;
    }
  }
  *flag = 1;
  return finish_one(object, request, status, __func__, flag);
}

MPI_FUNCTION(Waitall)(int count, MPI_Request* handles, MPI_Status* statuses) {
  const int code = check_array(count, handles, __func__);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  Errors errors(statuses, __func__);
  bool all_valid = true;
  for (int i = 0; i < count; ++i) {
    RequestObject* request = nullptr;
    if (handles[i] != MPI_REQUEST_NULL) {
      request = find_request(handles[i]);
      if (request == nullptr) [[unlikely]] {
        errors.add(nullptr, i, MPI_ERR_REQUEST);
        all_valid = false;
        continue;
      }
    }
    if (request == nullptr || is_idle(request)) {
      fill_empty(at(statuses, i));
      errors.add(nullptr, i, MPI_SUCCESS);
      continue;
    }
    wait_for(request, handles + i, count - i);
    finish_in_array(&handles[i], request, statuses, i, errors);
  }
  if (!all_valid) [[unlikely]]
    return raise(nullptr, MPI_ERR_REQUEST, __func__);
  return errors.conclude();
}

MPI_FUNCTION(Testall)(int count, MPI_Request* handles, int* flag, MPI_Status* statuses) {
  const int code = check_array(count, handles, __func__);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  if (flag == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "flag is null");
  if (!are_valid(count, handles)) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  if (!all_complete(count, handles)) {
    progress_once(context_of(count, handles));
    if (!all_complete(count, handles)) {
      *flag = 0;
      return MPI_SUCCESS;
    }
  }
  *flag = 1;
  Errors errors(statuses, __func__);
  finish_all(count, handles, statuses, errors);
  return errors.conclude();
}

MPI_FUNCTION(Waitany)(int count, MPI_Request* handles, int* index, MPI_Status* status) {
  const int code = check_array(count, handles, __func__);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  if (index == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "index is null");
  if (!are_valid(count, handles)) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  const int found = wait_for_complete(count, handles);
  if (found == -2) {
    *index = MPI_UNDEFINED;
    fill_empty(status);
    return MPI_SUCCESS;
  }
  *index = found;
  return finish_one(find_request(handles[found]), &handles[found], status, __func__);
}

MPI_FUNCTION(Testany)(int count, MPI_Request* handles, int* index, int* flag, MPI_Status* status) {
  const int code = check_array(count, handles, __func__);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  if (index == nullptr || flag == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "index or flag is null");
  if (!are_valid(count, handles)) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  int found = find_complete(count, handles);
  if (found == -1) {
    progress_once(context_of(count, handles));
    found = find_complete(count, handles);
  }
  *flag = found != -1;
  *index = found < 0 ? MPI_UNDEFINED : found;
  if (found == -2) fill_empty(status);
  if (found < 0) return MPI_SUCCESS;
  return finish_one(find_request(handles[found]), &handles[found], status, __func__);
}

MPI_FUNCTION(Waitsome)
(int count, MPI_Request* handles, int* outcount, int* indices, MPI_Status* statuses) {
  const int code = check_array(count, handles, __func__);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  if (outcount == nullptr || (indices == nullptr && count > 0))
    return raise(nullptr, MPI_ERR_ARG, __func__, "outcount or the array of indices is null");
  if (!are_valid(count, handles)) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  for (;;) {
    if (wait_for_complete(count, handles) == -2) {
      *outcount = MPI_UNDEFINED;
      return MPI_SUCCESS;
    }
    Errors errors(statuses, __func__);
    *outcount = finish_some(count, handles, indices, statuses, errors);
    // None: one that paused has gone on meanwhile.
    if (*outcount != 0) return errors.conclude();
  }
}

MPI_FUNCTION(Testsome)
(int count, MPI_Request* handles, int* outcount, int* indices, MPI_Status* statuses) {
  const int code = check_array(count, handles, __func__);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  if (outcount == nullptr || (indices == nullptr && count > 0))
    return raise(nullptr, MPI_ERR_ARG, __func__, "outcount or the array of indices is null");
  if (!are_valid(count, handles)) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  int found = find_complete(count, handles);
  if (found == -1) {
    progress_once(context_of(count, handles));
    found = find_complete(count, handles);
  }
  if (found < 0) {
    *outcount = found == -2 ? MPI_UNDEFINED : 0;
    return MPI_SUCCESS;
  }
  Errors errors(statuses, __func__);
  *outcount = finish_some(count, handles, indices, statuses, errors);
  return errors.conclude();
}

// The same tests without completing anything.

MPI_FUNCTION(Request_get_status)(MPI_Request request, int* flag, MPI_Status* status) {
  MPI_MUST_RUN();
  if (flag == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "flag is null");
  RequestObject* object = nullptr;
  if (request != MPI_REQUEST_NULL) {
    object = find_request(request);
    if (object == nullptr) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  }
  if (object == nullptr || is_idle(object)) {
    *flag = 1;
    fill_empty(status);
    return MPI_SUCCESS;
  }
  if (!object->base.is_over()) progress_once(context_of(*object));
  *flag = object->is_complete();
  if (*flag == 0) return MPI_SUCCESS;
  const int code = read_result(object, status);
  if (code == MPIX_ERR_PROC_FAILED_PENDING) *flag = 0;
  return code == MPI_SUCCESS ? code : raise(object->comm, code, __func__);
}

MPI_FUNCTION(Request_get_status_all)
(int count, const MPI_Request* handles, int* flag, MPI_Status* statuses) {
  const int code = check_array(count, handles, __func__);
  if (code != MPI_SUCCESS) return code;
  if (flag == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "flag is null");
  if (!are_valid(count, handles)) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  poll_for_paused(count, handles);
  if (!all_complete(count, handles)) progress_once(context_of(count, handles));
  *flag = all_complete(count, handles);
  if (*flag == 0) return MPI_SUCCESS;
  Errors errors(statuses, __func__);
  for (int i = 0; i < count; ++i) {
    RequestObject* request = handles[i] == MPI_REQUEST_NULL ? nullptr : find_request(handles[i]);
    int result = MPI_SUCCESS;
    if (request == nullptr || is_idle(request))
      fill_empty(at(statuses, i));
    else
      result = read_result(request, at(statuses, i));
    errors.add(request == nullptr ? nullptr : request->comm, i, result);
  }
  return errors.conclude();
}

MPI_FUNCTION(Request_get_status_any)
(int count, const MPI_Request* handles, int* index, int* flag, MPI_Status* status) {
  const int code = check_array(count, handles, __func__);
  if (code != MPI_SUCCESS) return code;
  if (flag == nullptr || index == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "index or flag is null");
  if (!are_valid(count, handles)) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  poll_for_paused(count, handles);
  int found = find_complete(count, handles);
  if (found == -1) {
    progress_once(context_of(count, handles));
    found = find_complete(count, handles);
  }
  *flag = found != -1;
  *index = found < 0 ? MPI_UNDEFINED : found;
  if (found == -2) fill_empty(status);
  if (found < 0) return MPI_SUCCESS;
  RequestObject* request = find_request(handles[found]);
  const int result = read_result(request, status);
  return result == MPI_SUCCESS ? result : raise(request->comm, result, __func__);
}

MPI_FUNCTION(Request_get_status_some)
(int count, const MPI_Request* handles, int* outcount, int* indices, MPI_Status* statuses) {
  const int code = check_array(count, handles, __func__);
  if (code != MPI_SUCCESS) return code;
  if (outcount == nullptr || (indices == nullptr && count > 0))
    return raise(nullptr, MPI_ERR_ARG, __func__, "outcount or the array of indices is null");
  if (!are_valid(count, handles)) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  poll_for_paused(count, handles);
  int found = find_complete(count, handles);
  if (found == -1) {
    progress_once(context_of(count, handles));
    found = find_complete(count, handles);
  }
  if (found < 0) {
    *outcount = found == -2 ? MPI_UNDEFINED : 0;
    return MPI_SUCCESS;
  }
  Errors errors(statuses, __func__);
  int done = 0;
  for (int i = 0; i < count; ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    RequestObject* request = find_request(handles[i]);
    if (is_idle(request) || !request->is_complete()) continue;
    indices[done] = i;
    const int result = read_result(request, at(statuses, done));
    errors.add(request->comm, done, result);
    ++done;
  }
  *outcount = done;
  return errors.conclude();
}

namespace {

// Runs the program's free function, once both MPI_Request_free and MPI_Grequest_complete were
// called.
int free_generalized(RequestObject* request, const char* function) {
  const auto free = request->generalized.free;
  void* const extra_state = request->generalized.extra_state;
  free_request(request);
  const int code = free(extra_state);
  return code == MPI_SUCCESS ? code : raise(nullptr, code, function);
}

}  // namespace

MPI_FUNCTION(Request_free)(MPI_Request* request) {
  if (request == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "request is null");
  RequestObject* object = find_request(*request);
  if (object == nullptr) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  *request = MPI_REQUEST_NULL;
  switch (object->kind) {
    case RequestObject::Kind::done_send:
    case RequestObject::Kind::done_none:
      return MPI_SUCCESS;
    case RequestObject::Kind::generalized:
      // acq_rel: the second caller sees what the first one did.
      if (!object->generalized.is_half_over.exchange(true, std::memory_order_acq_rel))
        return MPI_SUCCESS;  // the handle is for MPI_Grequest_complete from now on
      // Another thread may be between its two stores: wait for it.
      wait_for(object, request, 1);
      return free_generalized(object, __func__);
    default:
      break;
  }
  if (is_idle(object) || object->base.is_over())
    free_request(object);
  else
    detach_request(object);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Cancel)(MPI_Request* request) {
  if (request == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "request is null");
  RequestObject* object = find_request(*request);
  if (object == nullptr) return raise(nullptr, MPI_ERR_REQUEST, __func__);
  if (is_idle(object)) return raise(object->comm, MPI_ERR_REQUEST, __func__);
  if (object->kind == RequestObject::Kind::receive || object->kind == RequestObject::Kind::send) {
    // A message that has matched is received as usual; a send whose data have left is not
    // cancelled.
    engine->cancel(object->base);
  } else if (object->kind == RequestObject::Kind::generalized) {
    const int code =
        object->generalized.cancel(object->generalized.extra_state, object->is_complete());
    return code == MPI_SUCCESS ? code : raise(nullptr, code, __func__);
  } else if (object->kind == RequestObject::Kind::operation) {
    return raise(object->comm, MPI_ERR_REQUEST, __func__, "such an operation cannot be cancelled");
  }
  return MPI_SUCCESS;
}

MPI_FUNCTION(Grequest_start)
(MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
 MPI_Grequest_cancel_function* cancel_fn, void* extra_state, MPI_Request* request) {
  MPI_MUST_RUN();
  if (query_fn == nullptr || free_fn == nullptr || cancel_fn == nullptr || request == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "a function or request is null");
  RequestObject* object = new_request(nullptr, RequestObject::Kind::generalized);
  if (object == nullptr) return raise(nullptr, MPI_ERR_NO_MEM, __func__);
  auto& generalized = object->generalized;
  generalized.query = query_fn;
  generalized.free = free_fn;
  generalized.cancel = cancel_fn;
  generalized.extra_state = extra_state;
  generalized.is_half_over.store(false, std::memory_order_relaxed);
  *request = object->handle;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Grequest_complete)(MPI_Request request) {
  RequestObject* object = find_request(request);
  if (object == nullptr || object->kind != RequestObject::Kind::generalized)
    return raise(nullptr, MPI_ERR_REQUEST, __func__);
  if (object->is_complete())
    return raise(nullptr, MPI_ERR_REQUEST, __func__, "the request is complete already");
  if (object->generalized.is_half_over.exchange(true, std::memory_order_acq_rel))
    return free_generalized(object, __func__);
  object->base.complete.store(true, std::memory_order_release);  // pairs with is_complete()
  engine->ring(engine->rank());
  return MPI_SUCCESS;
}

MPI_CONVERSIONS(Request, MPI_Request, requests)
