#include "mpi/core/attributes.hpp"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "mpi/comm/comm.hpp"

namespace weft::mpi {
namespace {

struct Keyvals {
  std::mutex mutex;
  std::unordered_map<int, std::shared_ptr<Keyval>> by_number;
  std::unordered_map<int, std::weak_ptr<Keyval>> freed;  // freed while attributes used them
  int next = 1024;                                       // above the predefined keys
};
Immortal<Keyvals> keyvals;

// Returns the address of a predefined attribute's value of MPI_COMM_WORLD.
int* predefined_value(int keyval) {
  static int tag_ub = kTagUb;
  static int host = MPI_PROC_NULL;
  static int io = MPI_ANY_SOURCE;
  static int last_used = 0;
  static int tolerates_failures = 1;
  switch (keyval) {
    case MPIX_FT:
      return &tolerates_failures;
    case MPI_TAG_UB:
      return &tag_ub;
    case MPI_HOST:
      return &host;
    case MPI_IO:
      return &io;
    case MPI_WTIME_IS_GLOBAL: {
      // The monotonic clock is one per host.
      const Members& job = *process->job;
      static int is_global = static_cast<int>(job.local_ranks().size()) == job.size();
      return &is_global;
    }
    case MPI_UNIVERSE_SIZE: {
      static int universe_size = process->job->size();
      return &universe_size;
    }
    case MPI_APPNUM: {
      static int app_number = process->app_number;
      return &app_number;
    }
    case MPI_LASTUSEDCODE:
      // relaxed: a thread that asks sees at least the codes it has added itself.
      std::atomic_ref(last_used).store(last_used_code(), std::memory_order_relaxed);
      return &last_used;
    default:
      return nullptr;
  }
}

bool is_predefined_key(int keyval) {
  return (keyval >= MPI_TAG_UB && keyval <= MPI_UNIVERSE_SIZE) || keyval == MPIX_FT;
}

int set_attribute(MPI_Comm handle, int keyval, void* value, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  const int code = set_attribute(comm->attributes, Kind::comm, handle, keyval, value);
  return code == MPI_SUCCESS ? code : raise(comm, code, function);
}

int get_attribute(MPI_Comm handle, int keyval, void* value, int* flag, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (value == nullptr || flag == nullptr)
    return raise(comm, MPI_ERR_ARG, function, "the value or flag is null");
  if (is_predefined_key(keyval)) {
    int* predefined = predefined_value(keyval);
    *flag = predefined != nullptr;
    *static_cast<void**>(value) = predefined;
    return MPI_SUCCESS;
  }
  const int code = get_attribute(comm->attributes, Kind::comm, keyval, value, flag);
  return code == MPI_SUCCESS ? code : raise(comm, code, function);
}

int delete_attribute(MPI_Comm handle, int keyval, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  const int code = delete_attribute(comm->attributes, Kind::comm, handle, keyval);
  return code == MPI_SUCCESS ? code : raise(comm, code, function);
}

}  // namespace

int make_keyval(Kind kind, void (*copy)(), void (*drop)(), void* extra_state) {
  std::lock_guard lock(keyvals->mutex);
  const int number = keyvals->next;
  keyvals->by_number.emplace(
      number, std::make_shared<Keyval>(Keyval{kind, copy, drop, extra_state, number}));
  return keyvals->next++;
}

std::shared_ptr<Keyval> find_keyval(int number, Kind kind) {
  std::lock_guard lock(keyvals->mutex);
  const auto found = keyvals->by_number.find(number);
  if (found == keyvals->by_number.end() || found->second->kind != kind) return nullptr;
  return found->second;
}

bool free_keyval(int number, Kind kind) {
  std::lock_guard lock(keyvals->mutex);
  std::erase_if(keyvals->freed, [](const auto& entry) { return entry.second.expired(); });
  if (const auto gone = keyvals->freed.find(number); gone != keyvals->freed.end()) {
    const std::shared_ptr<Keyval> key = gone->second.lock();
    return key != nullptr && key->kind == kind;
  }
  const auto found = keyvals->by_number.find(number);
  if (found == keyvals->by_number.end() || found->second->kind != kind) return false;
  keyvals->freed[number] = found->second;
  keyvals->by_number.erase(found);  // attributes that use it keep it alive
  return true;
}

int create_keyval(Kind kind, void (*copy)(), void (*drop)(), int* out, void* extra_state,
                  const char* function) {
  MPI_MUST_RUN_IN(function);
  if (out == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "keyval is null");
  *out = make_keyval(kind, copy, drop, extra_state);
  return MPI_SUCCESS;
}

int free_keyval(Kind kind, int* keyval, const char* function) {
  MPI_MUST_RUN_IN(function);
  if (keyval == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "keyval is null");
  if (!free_keyval(*keyval, kind)) return raise(nullptr, MPI_ERR_KEYVAL, function);
  *keyval = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Comm_create_keyval)
(MPI_Comm_copy_attr_function* comm_copy_attr_fn, MPI_Comm_delete_attr_function* comm_delete_attr_fn,
 int* comm_keyval, void* extra_state) {
  return create_keyval(Kind::comm, reinterpret_cast<void (*)()>(comm_copy_attr_fn),
                       reinterpret_cast<void (*)()>(comm_delete_attr_fn), comm_keyval, extra_state,
                       __func__);
}
MPI_FUNCTION(Keyval_create)
(MPI_Copy_function* copy_fn, MPI_Delete_function* delete_fn, int* keyval, void* extra_state) {
  return create_keyval(Kind::comm, reinterpret_cast<void (*)()>(copy_fn),
                       reinterpret_cast<void (*)()>(delete_fn), keyval, extra_state, __func__);
}
MPI_FUNCTION(Comm_free_keyval)(int* comm_keyval) {
  return free_keyval(Kind::comm, comm_keyval, __func__);
}
MPI_FUNCTION(Keyval_free)(int* keyval) { return free_keyval(Kind::comm, keyval, __func__); }
MPI_FUNCTION(Comm_set_attr)(MPI_Comm comm, int comm_keyval, void* attribute_val) {
  return set_attribute(comm, comm_keyval, attribute_val, __func__);
}
MPI_FUNCTION(Attr_put)(MPI_Comm comm, int keyval, void* attribute_val) {
  return set_attribute(comm, keyval, attribute_val, __func__);
}
MPI_FUNCTION(Comm_get_attr)(MPI_Comm comm, int comm_keyval, void* attribute_val, int* flag) {
  return get_attribute(comm, comm_keyval, attribute_val, flag, __func__);
}
MPI_FUNCTION(Attr_get)(MPI_Comm comm, int keyval, void* attribute_val, int* flag) {
  return get_attribute(comm, keyval, attribute_val, flag, __func__);
}
MPI_FUNCTION(Comm_delete_attr)(MPI_Comm comm, int comm_keyval) {
  return delete_attribute(comm, comm_keyval, __func__);
}
MPI_FUNCTION(Attr_delete)(MPI_Comm comm, int keyval) {
  return delete_attribute(comm, keyval, __func__);
}
