#pragma once
// The tool information interface, MPI_T (MPI 5.0 section 15.3): the declarations that its files
// share. tools.cpp starts and ends it, cvar.cpp has the settings, pvar.cpp the counters, event.cpp
// the events, category.cpp groups them all.
//
// Its functions return codes of their own: they call no error handler, end no program, and work
// before MPI_Init and after MPI_Finalize.
//
// Threads: any thread may call any function, whatever MPI_Init_thread granted: one mutex guards all
// state here, and nothing that is called with it held takes another lock of MPI. Callbacks of the
// program are called without it.
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "mpi/core/call.hpp"
#include "mpi/core/handle_table.hpp"
#include "mpi/core/state.hpp"

namespace weft::mpi {
struct Info;
}

namespace weft::mpi::tools {

// The object behind a handle of the interface. All kinds are in one table, as each has few.
struct Object {
  enum class Type : char { enumeration, cvar, session, pvar, registration, instance };
  explicit Object(Type the_type) noexcept : type(the_type) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  const Type type;
};

using Handle = struct ToolHandle*;

struct Enumeration : Object {
  static constexpr Type kType = Type::enumeration;
  Enumeration(std::string_view the_name, std::vector<std::string> the_items)
      : Object(kType), name(the_name), items(std::move(the_items)) {}
  const std::string name;
  const std::vector<std::string> items;  // item i has the value i
};

struct Shared {
  std::mutex mutex;
  int num_users = 0;  // calls of MPI_T_init_thread minus those of MPI_T_finalize
  HandleTable<Handle, Object, Kind::tool> objects;
  const tagged::Engine* engine = nullptr;  // while it runs
};
extern Immortal<Shared> shared;

// Returns the object behind a handle, or null.
template <class T, class ToolHandleType>
T* find(ToolHandleType handle) noexcept {
  Object* object = shared->objects.find(reinterpret_cast<Handle>(handle));
  return object != nullptr && object->type == T::kType ? static_cast<T*>(object) : nullptr;
}
// Returns a handle for the object, which the table owns from then on; null if there is none left.
template <class ToolHandleType, class T>
ToolHandleType add(std::unique_ptr<T> object) {
  const Handle handle = shared->objects.insert(object.get());
  if (handle != nullptr) (void)object.release();
  return reinterpret_cast<ToolHandleType>(handle);
}
template <class ToolHandleType>
void drop(ToolHandleType handle) noexcept {
  delete shared->objects.erase(reinterpret_cast<Handle>(handle));
}

// Calls back for waiting events, if a callback waits for a call like this one.
void call_back_late() noexcept;

// Runs the body of a function of the interface with the mutex held. Returns its code, or the reason
// it cannot run.
template <class Body>
int run(Body&& body) noexcept try {
  call_back_late();
  const std::lock_guard lock(shared->mutex);
  if (shared->num_users == 0) return MPI_T_ERR_NOT_INITIALIZED;
  return body();
} catch (const std::bad_alloc&) {
  return MPI_T_ERR_MEMORY;
}

// Stores a result that the caller may not want.
template <class T, class Value>
void give(T* to, Value value) noexcept {
  if (to != nullptr) *to = static_cast<T>(value);
}
// Stores a text as section 15.3.3 defines: at most *length bytes with the terminating zero; *length
// becomes the size of all of it. Either may be null.
void give_text(std::string_view text, char* to, int* length) noexcept;
// Stores a new info object for the caller, if wanted.
void give_info(const Info* from, MPI_Info* to);

// Returns the enumeration of that name, which is made at the first call.
MPI_T_enum make_enumeration(std::string_view name, std::vector<std::string> items);
// Returns the enumeration of a setting with choices, else MPI_T_ENUM_NULL.
MPI_T_enum enumeration_of(const SettingRow& row);
// Returns "a", "b" and "c" of a choice's meaning "a|b|c: ...".
std::vector<std::string> choices_of(const SettingRow& row);

// Called by MPI_Init: the values written to control variables go into the settings; from here on
// these stay. May throw std::bad_alloc.
void apply_settings(Settings& settings);
// Called when the engine starts to run, and when it ends.
void attach(tagged::Engine& engine) noexcept;
void detach() noexcept;

// With the mutex held; may throw std::bad_alloc. Those of the collectives are the last ones.
int num_pvars();
int first_pvar_of_collectives();
int num_events() noexcept;
// Raises the event of a memory registration for other processes.
void note_shared(const void* address, std::size_t bytes) noexcept;
// Raises the event of a revocation that this process has heard of, or has begun: teller is itself.
void note_revoked(int teller, int handle) noexcept;
// Removes all registrations, at the last MPI_T_finalize.
void clear_events() noexcept;
void clear_pvars() noexcept;
// Keeps the values of the variables for the time after the engine.
void note_end(const tagged::Engine& engine) noexcept;

}  // namespace weft::mpi::tools
