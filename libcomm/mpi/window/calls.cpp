// Queries and settings of windows: names, attributes, hints, groups, error handlers, and the
// addresses of shared memory.
#include <cstring>
#include <limits>

#include "base/wait.hpp"
#include "mpi/comm/group.hpp"
#include "mpi/window/window.hpp"

namespace weft::mpi {
namespace {

// Finds a window whose result goes to `out`. MPI_SUCCESS or the code that was raised.
int find_with(MPI_Win win, const void* out, Window*& window, const char* function) {
  window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, function);
  if (out == nullptr) return raise_on(window, MPI_ERR_ARG, function, "an argument is null");
  return MPI_SUCCESS;
}

// Returns the value of a predefined attribute, or null.
void* window_value(Window& window, int keyval) {
  switch (keyval) {
    case MPI_WIN_BASE:
      return window.base;
    case MPI_WIN_SIZE:
      return &window.bytes;
    case MPI_WIN_DISP_UNIT:
      return &window.unit;
    case MPI_WIN_CREATE_FLAVOR:
      return &window.flavor;
    case MPI_WIN_MODEL:
      return &window.model;
    default:
      return nullptr;
  }
}
bool is_window_key(int keyval) { return keyval >= MPI_WIN_BASE && keyval <= MPI_WIN_MODEL; }

template <class Unit>
int shared_query(MPI_Win win, int rank, MPI_Aint* size, Unit* unit, void* baseptr,
                 const char* function) {
  Window* window = nullptr;
  if (const int code = find_with(win, size, window, function); code != MPI_SUCCESS) return code;
  if (unit == nullptr || baseptr == nullptr)
    return raise_on(window, MPI_ERR_ARG, function, "an argument is null");
  if (window->flavor == MPI_WIN_FLAVOR_DYNAMIC)
    return raise_on(window, MPI_ERR_RMA_FLAVOR, function, "a dynamic window");
  if (rank != MPI_PROC_NULL && (rank < 0 || rank >= window->size()))
    return raise_on(window, MPI_ERR_RANK, function);
  // MPI_PROC_NULL: the first member that has memory, as the parts of all are one piece.
  int member = rank;
  if (rank == MPI_PROC_NULL)
    for (member = 0; member + 1 < window->size() && window->extent(member).bytes == 0;) ++member;
  Window::Extent extent = window->extent(member);
  if (extent.data == nullptr) extent.bytes = 0;  // not to be had by load and store
  // A place without bytes is a place in memory that is shared, and nothing elsewhere.
  if (extent.bytes == 0 && window->flavor != MPI_WIN_FLAVOR_SHARED) extent.data = nullptr;
  *size = static_cast<MPI_Aint>(extent.bytes);
  *unit = static_cast<Unit>(extent.unit);
  *static_cast<void**>(baseptr) = extent.data;
  return MPI_SUCCESS;
}

}  // namespace

int class_of_failure(Window& window, Code code) {
  hear_of_revocations();
  const std::uint64_t limit = now_ns() + kWordNs;
  while (is_refusal(code) && !is_revoked(*window.comm) && now_ns() < limit) hear_of_revocations();
  return is_revoked(*window.comm) ? MPIX_ERR_REVOKED : error_class(code);
}

int raise_on(Window* window, int code, const char* function, std::string_view text) {
  if (window == nullptr) return raise(nullptr, code, function, text);
  ErrorHandler* handler;
  {
    const std::lock_guard lock(window->comm->mutex);
    handler = retain(window->errhandler);
  }
  int result = code;
  if (handler->action == ErrorHandler::Action::call) {
    MPI_Win handle = window->handle;
    reinterpret_cast<MPI_Win_errhandler_function*>(handler->function)(&handle, &code);
  } else {
    result = call_errhandler(window->comm, handler, code, function, text);
  }
  release(handler);
  return result;
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Win_get_group)(MPI_Win win, MPI_Group* group) {
  Window* window = nullptr;
  if (const int code = find_with(win, group, window, __func__); code != MPI_SUCCESS) return code;
  *group = make_group_handle(window->comm->group);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Win_shared_query)
(MPI_Win win, int rank, MPI_Aint* size, int* disp_unit, void* baseptr) {
  return shared_query(win, rank, size, disp_unit, baseptr, __func__);
}
MPI_FUNCTION(Win_shared_query_c)
(MPI_Win win, int rank, MPI_Aint* size, MPI_Aint* disp_unit, void* baseptr) {
  return shared_query(win, rank, size, disp_unit, baseptr, __func__);
}

MPI_FUNCTION(Win_set_name)(MPI_Win win, const char* name) {
  Window* window = nullptr;
  if (const int code = find_with(win, name, window, __func__); code != MPI_SUCCESS) return code;
  // The communicator has the same name, as messages about errors print it.
  const std::lock_guard lock(window->comm->mutex);
  window->comm->name.assign(name, strnlen(name, MPI_MAX_OBJECT_NAME - 1));
  return MPI_SUCCESS;
}

MPI_FUNCTION(Win_get_name)(MPI_Win win, char* out, int* resultlen) {
  std::string name = "MPI_WIN_NULL";
  Window* window = find_window(win);
  if (window == nullptr && win != MPI_WIN_NULL) return raise_on(nullptr, MPI_ERR_WIN, __func__);
  if (out == nullptr || resultlen == nullptr)
    return raise_on(window, MPI_ERR_ARG, __func__, "the name or resultlen is null");
  if (window != nullptr) {
    const std::lock_guard lock(window->comm->mutex);
    name = window->comm->name;
  }
  std::memcpy(out, name.c_str(), name.size() + 1);
  *resultlen = static_cast<int>(name.size());
  return MPI_SUCCESS;
}

MPI_FUNCTION(Win_set_info)(MPI_Win win, MPI_Info info) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, __func__);
  Info* hints = find_info(info);
  if (info == MPI_INFO_NULL) return MPI_SUCCESS;
  if (hints == nullptr) return raise_on(window, MPI_ERR_INFO, __func__);
  const std::lock_guard lock(window->comm->mutex);
  auto merged = std::make_shared<Info>();
  if (window->info != nullptr) merged->pairs = window->info->pairs;
  for (const auto& [key, value] : hints->pairs) merged->set(key, value);
  window->info = std::move(merged);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Win_get_info)(MPI_Win win, MPI_Info* info_used) {
  Window* window = nullptr;
  if (const int code = find_with(win, info_used, window, __func__); code != MPI_SUCCESS)
    return code;
  // The values that the standard defines, and those in effect unless the program has set others.
  Info used;
  used.set("no_locks", "false");
  used.set("accumulate_ordering", "rar,raw,war,waw");
  used.set("accumulate_ops", "same_op_no_op");
  used.set("mpi_accumulate_granularity", "0");
  used.set("same_size", "false");
  used.set("same_disp_unit", "false");
  if (window->flavor == MPI_WIN_FLAVOR_SHARED) used.set("alloc_shared_noncontig", "false");
  {
    const std::lock_guard lock(window->comm->mutex);
    if (window->info != nullptr)
      for (const auto& [key, value] : window->info->pairs) used.set(key, value);
  }
  *info_used = make_info(&used);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Win_create_keyval)
(MPI_Win_copy_attr_function* copy, MPI_Win_delete_attr_function* drop, int* keyval,
 void* extra_state) {
  return create_keyval(Kind::win, reinterpret_cast<void (*)()>(copy),
                       reinterpret_cast<void (*)()>(drop), keyval, extra_state, __func__);
}

MPI_FUNCTION(Win_free_keyval)(int* keyval) { return free_keyval(Kind::win, keyval, __func__); }

MPI_FUNCTION(Win_set_attr)(MPI_Win win, int keyval, void* value) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, __func__);
  const int code = set_attribute(window->attributes, Kind::win, win, keyval, value);
  return code == MPI_SUCCESS ? code : raise_on(window, code, __func__);
}

MPI_FUNCTION(Win_get_attr)(MPI_Win win, int keyval, void* value, int* flag) {
  Window* window = nullptr;
  if (const int code = find_with(win, value, window, __func__); code != MPI_SUCCESS) return code;
  if (flag == nullptr) return raise_on(window, MPI_ERR_ARG, __func__, "flag is null");
  if (is_window_key(keyval)) {
    *flag = 1;
    *static_cast<void**>(value) = window_value(*window, keyval);
    return MPI_SUCCESS;
  }
  const int code = get_attribute(window->attributes, Kind::win, keyval, value, flag);
  return code == MPI_SUCCESS ? code : raise_on(window, code, __func__);
}

MPI_FUNCTION(Win_delete_attr)(MPI_Win win, int keyval) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, __func__);
  const int code = delete_attribute(window->attributes, Kind::win, win, keyval);
  return code == MPI_SUCCESS ? code : raise_on(window, code, __func__);
}

MPI_FUNCTION(Win_create_errhandler)
(MPI_Win_errhandler_function* win_errhandler_fn, MPI_Errhandler* errhandler) {
  if (win_errhandler_fn == nullptr || errhandler == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "the function or errhandler is null");
  *errhandler = make_errhandler(Kind::win, reinterpret_cast<void (*)()>(win_errhandler_fn));
  return MPI_SUCCESS;
}

MPI_FUNCTION(Win_set_errhandler)(MPI_Win win, MPI_Errhandler errhandler) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, __func__);
  ErrorHandler* handler = find_errhandler(errhandler);
  if (handler == nullptr ||
      (handler->action == ErrorHandler::Action::call && handler->object != Kind::win))
    return raise_on(window, MPI_ERR_ERRHANDLER, __func__);
  ErrorHandler* old;
  ErrorHandler* old_of_requests;
  // Requests name the window's communicator, which cannot have a handler for windows.
  ErrorHandler* of_requests =
      handler->action == ErrorHandler::Action::call ? find_errhandler(MPI_ERRORS_RETURN) : handler;
  {
    const std::lock_guard lock(window->comm->mutex);
    old = std::exchange(window->errhandler, retain(handler));
    old_of_requests = std::exchange(window->comm->errhandler, retain(of_requests));
  }
  release(old);
  release(old_of_requests);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Win_get_errhandler)(MPI_Win win, MPI_Errhandler* errhandler) {
  Window* window = nullptr;
  if (const int code = find_with(win, errhandler, window, __func__); code != MPI_SUCCESS)
    return code;
  const std::lock_guard lock(window->comm->mutex);
  *errhandler = give(window->errhandler);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Win_call_errhandler)(MPI_Win win, int errorcode) {
  Window* window = find_window(win);
  if (window == nullptr) return raise_on(nullptr, MPI_ERR_WIN, __func__);
  // The handler is called whatever it returns; the call itself succeeded.
  static_cast<void>(raise_on(window, errorcode, __func__));
  return MPI_SUCCESS;
}
