#include "mpi/fortran/callbacks.hpp"

#include <array>
#include <concepts>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <utility>
#include <vector>

namespace weft::mpi::fortran {

extern "C" {
#define WEFT_PREDEFINED(name) __attribute__((visibility("default"))) void name
// These are called by name only: passed as arguments they become constants before any call.
#define WEFT_COPIES(kind)                                                                       \
  WEFT_PREDEFINED(mpi_##kind##null_copy_fn_)                                                    \
  (MPI_Fint*, MPI_Fint*, MPI_Aint*, MPI_Aint*, MPI_Aint*, MPI_Fint * flag, MPI_Fint * ierror) { \
    *flag = 0;                                                                                  \
    *ierror = MPI_SUCCESS;                                                                      \
  }                                                                                             \
  WEFT_PREDEFINED(mpi_##kind##null_delete_fn_)                                                  \
  (MPI_Fint*, MPI_Fint*, MPI_Aint*, MPI_Aint*, MPI_Fint * ierror) { *ierror = MPI_SUCCESS; }
#define WEFT_DUP(kind, type)                                                                     \
  WEFT_PREDEFINED(mpi_##kind##dup_fn_)                                                           \
  (MPI_Fint*, MPI_Fint*, MPI_Aint*, type * in, type * out, MPI_Fint * flag, MPI_Fint * ierror) { \
    *out = *in;                                                                                  \
    *flag = 1;                                                                                   \
    *ierror = MPI_SUCCESS;                                                                       \
  }
WEFT_COPIES()
WEFT_COPIES(comm_)
WEFT_COPIES(type_)
WEFT_COPIES(win_)
WEFT_DUP(, MPI_Fint)
WEFT_DUP(comm_, MPI_Aint)
WEFT_DUP(type_, MPI_Aint)
WEFT_DUP(win_, MPI_Aint)
WEFT_PREDEFINED(mpi_conversion_fn_null_)
(void*, MPI_Fint*, MPI_Fint*, void*, MPI_Offset*, MPI_Aint*, MPI_Fint* ierror) {
  *ierror = MPI_SUCCESS;
}
}

namespace {

std::mutex callbacks_mutex;  // guards the stocks and the keyvals' cells

template <class Function>
bool is_one_of(Procedure* procedure, std::initializer_list<Function*> functions) noexcept {
  for (auto* function : functions)
    if (procedure == reinterpret_cast<Procedure*>(function)) return true;
  return false;
}
bool is_null_copy(Procedure* copy) noexcept {
  return is_one_of(copy, {mpi_null_copy_fn_, mpi_comm_null_copy_fn_, mpi_type_null_copy_fn_,
                          mpi_win_null_copy_fn_});
}
bool is_dup(Procedure* copy) noexcept {
  return is_one_of(copy, {mpi_comm_dup_fn_, mpi_type_dup_fn_, mpi_win_dup_fn_}) ||
         is_one_of(copy, {mpi_dup_fn_});
}
bool is_null_delete(Procedure* remove) noexcept {
  return is_one_of(remove, {mpi_null_delete_fn_, mpi_comm_null_delete_fn_, mpi_type_null_delete_fn_,
                            mpi_win_null_delete_fn_});
}

constexpr std::size_t kStock = 256;

// Stock<Maker>: kStock C functions, each for the procedure in its slot. Maker::call<slot> is the
// function; a slot is written once, before its function is given out.
template <class Maker>
class Stock {
 public:
  using Function = typename Maker::Function;

  static Function* take(Procedure* procedure) noexcept {
    const std::lock_guard lock(callbacks_mutex);
    for (std::size_t i = 0; i < kStock; ++i) {
      if (procedures[i] == nullptr) procedures[i] = procedure;
      if (procedures[i] == procedure) return functions[i];
    }
    return nullptr;
  }
  static inline std::array<Procedure*, kStock> procedures{};

 private:
  template <std::size_t... slot>
  static constexpr std::array<Function*, kStock> make(std::index_sequence<slot...>) {
    return {&Maker::template call<slot>...};
  }
  static constexpr std::array<Function*, kStock> functions =
      make(std::make_index_sequence<kStock>());
};

struct OpMaker {
  using Function = MPI_User_function;
  template <std::size_t slot>
  static void call(void* in, void* inout, int* length, MPI_Datatype* datatype) {
    MPI_Fint type = to_fortran(*datatype);
    reinterpret_cast<void (*)(void*, void*, MPI_Fint*, MPI_Fint*)>(
        Stock<OpMaker>::procedures[slot])(in, inout, length, &type);
  }
};
struct LargeOpMaker {
  using Function = MPI_User_function_c;
  template <std::size_t slot>
  static void call(void* in, void* inout, MPI_Count* length, MPI_Datatype* datatype) {
    MPI_Fint type = to_fortran(*datatype);
    reinterpret_cast<void (*)(void*, void*, MPI_Count*, MPI_Fint*)>(
        Stock<LargeOpMaker>::procedures[slot])(in, inout, length, &type);
  }
};
template <class Handle>
struct ErrhandlerMaker {
  using Function = void(Handle*, int*, ...);
  template <std::size_t slot>
  static void call(Handle* handle, int* code, ...) {
    MPI_Fint number = to_fortran(*handle);
    reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*)>(Stock<ErrhandlerMaker>::procedures[slot])(
        &number, code);
  }
};

struct KeyvalCell {
  Procedure *copy, *remove;
  MPI_Aint extra_state;
  bool is_old;
  bool operator==(const KeyvalCell&) const = default;
};

template <class Handle>
int call_copy(Handle handle, int keyval, void* extra, void* in, void* out, int* flag) {
  auto& cell = *static_cast<KeyvalCell*>(extra);
  MPI_Fint object = to_fortran(handle), ierror = MPI_SUCCESS, is_copied = 0;
  const MPI_Aint value = attribute_value(in);
  MPI_Aint result = 0;
  if (cell.is_old) {
    auto state = static_cast<MPI_Fint>(cell.extra_state), from = static_cast<MPI_Fint>(value);
    MPI_Fint to = 0;
    reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*,
                              MPI_Fint*)>(cell.copy)(&object, &keyval, &state, &from, &to,
                                                     &is_copied, &ierror);
    result = to;
  } else {
    MPI_Aint from = value;
    reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*, MPI_Aint*, MPI_Aint*, MPI_Aint*, MPI_Fint*,
                              MPI_Fint*)>(cell.copy)(&object, &keyval, &cell.extra_state, &from,
                                                     &result, &is_copied, &ierror);
  }
  *flag = is_copied != 0;
  if (*flag == 0 || ierror != MPI_SUCCESS) return ierror;
  void* kept = keep_attribute(result);
  *static_cast<void**>(out) = kept;
  return kept != nullptr ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

template <class Handle>
int call_delete(Handle handle, int keyval, void* attribute, void* extra) {
  auto& cell = *static_cast<KeyvalCell*>(extra);
  MPI_Fint object = to_fortran(handle), ierror = MPI_SUCCESS;
  MPI_Aint value = attribute_value(attribute);
  if (cell.is_old) {
    auto state = static_cast<MPI_Fint>(cell.extra_state), old_value = static_cast<MPI_Fint>(value);
    reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*)>(cell.remove)(
        &object, &keyval, &old_value, &state, &ierror);
  } else {
    reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*, MPI_Aint*, MPI_Aint*, MPI_Fint*)>(cell.remove)(
        &object, &keyval, &value, &cell.extra_state, &ierror);
  }
  return ierror;
}

struct GrequestCell {
  Procedure *query, *free, *cancel;
  MPI_Aint* extra_state;
};
int call_query(void* extra, MPI_Status* status) {
  auto& cell = *static_cast<GrequestCell*>(extra);
  MPI_Fint ierror = MPI_SUCCESS;
  reinterpret_cast<void (*)(MPI_Aint*, MPI_Fint*, MPI_Fint*)>(cell.query)(
      cell.extra_state, reinterpret_cast<MPI_Fint*>(status), &ierror);
  return ierror;
}
int call_free(void* extra) {
  const std::unique_ptr<GrequestCell> cell(static_cast<GrequestCell*>(extra));
  MPI_Fint ierror = MPI_SUCCESS;
  reinterpret_cast<void (*)(MPI_Aint*, MPI_Fint*)>(cell->free)(cell->extra_state, &ierror);
  return ierror;
}
int call_cancel(void* extra, int complete) {
  auto& cell = *static_cast<GrequestCell*>(extra);
  MPI_Fint is_complete = complete != 0, ierror = MPI_SUCCESS;
  reinterpret_cast<void (*)(MPI_Aint*, MPI_Fint*, MPI_Fint*)>(cell.cancel)(cell.extra_state,
                                                                           &is_complete, &ierror);
  return ierror;
}

struct DatarepCell {
  Procedure *read, *write, *extent;
  MPI_Aint extra_state;
};
template <Procedure* DatarepCell::*procedure, class Count>
int call_conversion(void* user, MPI_Datatype datatype, Count count, void* file, MPI_Offset position,
                    void* extra) {
  auto& cell = *static_cast<DatarepCell*>(extra);
  MPI_Fint type = to_fortran(datatype), ierror = MPI_SUCCESS;
  reinterpret_cast<void (*)(void*, MPI_Fint*, Count*, void*, MPI_Offset*, MPI_Aint*, MPI_Fint*)>(
      cell.*procedure)(user, &type, &count, file, &position, &cell.extra_state, &ierror);
  return ierror;
}
int call_extent(MPI_Datatype datatype, MPI_Aint* extent, void* extra) {
  auto& cell = *static_cast<DatarepCell*>(extra);
  MPI_Fint type = to_fortran(datatype), ierror = MPI_SUCCESS;
  reinterpret_cast<void (*)(MPI_Fint*, MPI_Aint*, MPI_Aint*, MPI_Fint*)>(cell.extent)(
      &type, extent, &cell.extra_state, &ierror);
  return ierror;
}

// Never destroyed: at exit, attributes may still be deleted.
template <class Cell>
Cell* keep(const Cell& cell) noexcept try {
  static auto& cells = *new std::vector<std::unique_ptr<Cell>>;
  const std::lock_guard lock(callbacks_mutex);
  for (const auto& kept : cells)
    if constexpr (std::equality_comparable<Cell>)
      if (*kept == cell) return kept.get();
  cells.push_back(std::make_unique<Cell>(cell));
  return cells.back().get();
} catch (const std::bad_alloc&) {
  return nullptr;
}

template <class Function, class Handle>
Function* copy_of(Procedure* copy) noexcept {
  if (is_null_copy(copy)) return nullptr;
  if (is_dup(copy)) return reinterpret_cast<Function*>(MPI_COMM_DUP_FN);
  return call_copy<Handle>;
}
template <class Function, class Handle>
Function* delete_of(Procedure* remove) noexcept {
  return is_null_delete(remove) ? nullptr : call_delete<Handle>;
}

}  // namespace

MPI_User_function* user_function(Procedure* procedure) noexcept {
  return Stock<OpMaker>::take(procedure);
}
MPI_User_function_c* user_function_c(Procedure* procedure) noexcept {
  return Stock<LargeOpMaker>::take(procedure);
}
MPI_Comm_errhandler_function* comm_errhandler(Procedure* procedure) noexcept {
  return Stock<ErrhandlerMaker<MPI_Comm>>::take(procedure);
}
MPI_File_errhandler_function* file_errhandler(Procedure* procedure) noexcept {
  return Stock<ErrhandlerMaker<MPI_File>>::take(procedure);
}
MPI_Win_errhandler_function* win_errhandler(Procedure* procedure) noexcept {
  return Stock<ErrhandlerMaker<MPI_Win>>::take(procedure);
}
MPI_Session_errhandler_function* session_errhandler(Procedure* procedure) noexcept {
  return Stock<ErrhandlerMaker<MPI_Session>>::take(procedure);
}

Keyval keyval_of(Procedure* copy, Procedure* remove, MPI_Aint extra_state, bool is_old) noexcept {
  return {keep(KeyvalCell{copy, remove, extra_state, is_old}),
          copy_of<MPI_Comm_copy_attr_function, MPI_Comm>(copy),
          delete_of<MPI_Comm_delete_attr_function, MPI_Comm>(remove),
          copy_of<MPI_Type_copy_attr_function, MPI_Datatype>(copy),
          delete_of<MPI_Type_delete_attr_function, MPI_Datatype>(remove),
          copy_of<MPI_Win_copy_attr_function, MPI_Win>(copy),
          delete_of<MPI_Win_delete_attr_function, MPI_Win>(remove)};
}

Grequest grequest_of(Procedure* query, Procedure* free, Procedure* cancel,
                     MPI_Aint* extra_state) noexcept {
  return {new (std::nothrow) GrequestCell{query, free, cancel, extra_state}, call_query, call_free,
          call_cancel};
}
void drop(const Grequest& request) noexcept { delete static_cast<GrequestCell*>(request.cell); }

Datarep datarep_of(Procedure* read, Procedure* write, Procedure* extent,
                   MPI_Aint extra_state) noexcept {
  const bool reads = !is_one_of(read, {mpi_conversion_fn_null_});
  const bool writes = !is_one_of(write, {mpi_conversion_fn_null_});
  return {keep(DatarepCell{read, write, extent, extra_state}),
          reads ? call_conversion<&DatarepCell::read, int> : nullptr,
          writes ? call_conversion<&DatarepCell::write, int> : nullptr,
          reads ? call_conversion<&DatarepCell::read, MPI_Count> : nullptr,
          writes ? call_conversion<&DatarepCell::write, MPI_Count> : nullptr,
          call_extent};
}

namespace {
struct Kept {
  std::map<MPI_Aint, std::unique_ptr<MPI_Aint>> by_value;
  std::set<const void*> places;
};
// Never destroyed: at exit, attributes may still be read.
Kept& kept_attributes() {
  static auto& kept = *new Kept;
  return kept;
}
}  // namespace

void* keep_attribute(MPI_Aint value) noexcept try {
  const std::lock_guard lock(callbacks_mutex);
  auto& kept = kept_attributes();
  const auto found = kept.by_value.find(value);
  if (found != kept.by_value.end()) return found->second.get();
  auto made = std::make_unique<MPI_Aint>(value);
  MPI_Aint* place = made.get();
  kept.places.insert(place);
  try {
    kept.by_value.emplace(value, std::move(made));
  } catch (const std::bad_alloc&) {
    kept.places.erase(place);
    throw;
  }
  return place;
} catch (const std::bad_alloc&) {
  return nullptr;
}

MPI_Aint attribute_value(void* attribute) noexcept try {
  const std::lock_guard lock(callbacks_mutex);
  if (kept_attributes().places.count(attribute) != 0) return *static_cast<MPI_Aint*>(attribute);
  return reinterpret_cast<MPI_Aint>(attribute);
} catch (const std::bad_alloc&) {
  return reinterpret_cast<MPI_Aint>(attribute);  // nothing is kept yet
}

MPI_Aint comm_attribute(int keyval, void* value) noexcept {
  switch (keyval) {
    case MPI_TAG_UB:
    case MPI_IO:
    case MPI_HOST:
    case MPI_WTIME_IS_GLOBAL:
    case MPI_APPNUM:
    case MPI_LASTUSEDCODE:
    case MPI_UNIVERSE_SIZE:
      return *static_cast<int*>(value);
    default:
      return attribute_value(value);
  }
}
MPI_Aint win_attribute(int keyval, void* value) noexcept {
  switch (keyval) {
    case MPI_WIN_SIZE:
      return *static_cast<MPI_Aint*>(value);
    case MPI_WIN_DISP_UNIT:
    case MPI_WIN_CREATE_FLAVOR:
    case MPI_WIN_MODEL:
      return *static_cast<int*>(value);
    default:
      return attribute_value(value);
  }
}

}  // namespace weft::mpi::fortran
