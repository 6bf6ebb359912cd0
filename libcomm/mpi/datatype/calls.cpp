// Queries of datatypes and operations on their handles: MPI 5.0 sections 5.1.5 to 5.1.13 and 7.7
// (attributes), 7.8 (names).
#include <climits>
#include <cstring>

#include "mpi/core/state.hpp"
#include "mpi/datatype/datatype.hpp"

namespace weft::mpi {
namespace {

// Converts a size or bound to the program's integer: MPI_UNDEFINED if it does not fit.
template <class Integer>
Integer fit(std::int64_t value) noexcept {
  if constexpr (sizeof(Integer) < sizeof value)
    if (value > INT_MAX || value < INT_MIN) return MPI_UNDEFINED;
  return static_cast<Integer>(value);
}

template <class Integer>
int get_size(MPI_Datatype handle, Integer* size, const char* function) {
  MPI_MUST_RUN_IN(function);
  if (size == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "size is null");
  const Datatype* type = find_datatype(handle);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, function);
  *size = fit<Integer>(static_cast<std::int64_t>(type->size()));
  return MPI_SUCCESS;
}

template <class Integer>
int get_extent(MPI_Datatype handle, Integer* lb, Integer* extent, bool is_true,
               const char* function) {
  MPI_MUST_RUN_IN(function);
  if (lb == nullptr || extent == nullptr)
    return raise(nullptr, MPI_ERR_ARG, function, "an argument is null");
  const Datatype* type = find_datatype(handle);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, function);
  *lb = is_true ? type->true_lb() : type->lb();
  *extent = is_true ? type->true_extent() : type->extent();
  return MPI_SUCCESS;
}

// Null num_counts: the plain form, which cannot describe types made by _c functions.
template <class Integer>
int get_envelope(MPI_Datatype handle, Integer* num_integers, Integer* num_addresses,
                 Integer* num_counts, Integer* num_datatypes, int* combiner, const char* function) {
  MPI_MUST_RUN_IN(function);
  if (num_integers == nullptr || num_addresses == nullptr || num_datatypes == nullptr ||
      combiner == nullptr)
    return raise(nullptr, MPI_ERR_ARG, function, "an argument is null");
  const Datatype* type = find_datatype(handle);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, function);
  if (num_counts == nullptr && type->large_)
    return raise(nullptr, MPI_ERR_TYPE, function,
                 "the type was made by a _c function: use the _c form");
  *num_integers = static_cast<Integer>(type->integers_.size());
  *num_addresses = static_cast<Integer>(type->addresses_.size());
  if (num_counts != nullptr) *num_counts = static_cast<Integer>(type->counts_.size());
  *num_datatypes = static_cast<Integer>(type->types_.size());
  *combiner = type->combiner_;
  return MPI_SUCCESS;
}

int get_contents(MPI_Datatype handle, MPI_Count max_integers, MPI_Count max_addresses,
                 MPI_Count max_counts, MPI_Count max_datatypes, int* integers, MPI_Aint* addresses,
                 MPI_Count* counts, MPI_Datatype* types, const char* function) {
  MPI_MUST_RUN_IN(function);
  const Datatype* type = find_datatype(handle);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, function);
  if (type->combiner_ == MPI_COMBINER_NAMED)
    return raise(nullptr, MPI_ERR_TYPE, function, "a predefined type has no contents");
  const auto is_short = [](MPI_Count most, std::size_t n) {
    return most < 0 || static_cast<std::size_t>(most) < n;
  };
  if (is_short(max_integers, type->integers_.size()) ||
      is_short(max_addresses, type->addresses_.size()) ||
      is_short(max_counts, type->counts_.size()) || is_short(max_datatypes, type->types_.size()))
    return raise(nullptr, MPI_ERR_ARG, function,
                 "an array is shorter than MPI_Type_get_envelope reports");
  for (std::size_t i = 0; i < type->integers_.size(); ++i) integers[i] = type->integers_[i];
  for (std::size_t i = 0; i < type->addresses_.size(); ++i) addresses[i] = type->addresses_[i];
  for (std::size_t i = 0; i < type->counts_.size(); ++i) counts[i] = type->counts_[i];
  for (std::size_t i = 0; i < type->types_.size(); ++i) {
    Datatype* part = type->types_[i];
    if (part->predefined_) {
      types[i] = part->handle_;
      continue;
    }
    // The program gets a handle of its own, which it frees.
    try {
      types[i] = datatypes().insert(part);
    } catch (const std::bad_alloc&) {
      while (i-- > 0)
        if (!type->types_[i]->predefined_) {
          datatypes().erase(types[i]);
          release(type->types_[i]);
        }
      throw;
    }
    retain(part);
  }
  return MPI_SUCCESS;
}

int copy_name(const std::string& name, char* out, int* length) {
  std::memcpy(out, name.c_str(), name.size() + 1);
  *length = static_cast<int>(name.size());
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft::mpi;  // NOLINT(google-build-using-namespace): bodies of a C interface

MPI_FUNCTION(Type_commit)(MPI_Datatype* handle) {
  MPI_MUST_RUN();
  if (handle == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "datatype is null");
  Datatype* type = find_datatype(*handle);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, __func__);
  type->committed_ = true;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Type_free)(MPI_Datatype* handle) {
  MPI_MUST_RUN();
  if (handle == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "datatype is null");
  Datatype* type = find_derived(*handle);
  if (type == nullptr || type->predefined_)
    return raise(nullptr, MPI_ERR_TYPE, __func__,
                 find_datatype(*handle) != nullptr ? "a predefined type cannot be freed" : "");
  // Other handles of the same type (from MPI_Type_get_contents) carry no attributes.
  if (type->handle_ == *handle) {
    const int code = type->attributes_.clear(*handle);
    if (code != MPI_SUCCESS) return raise(nullptr, code, __func__);
  }
  if (!free_handle(type, *handle)) return raise(nullptr, MPI_ERR_TYPE, __func__);
  *handle = MPI_DATATYPE_NULL;
  release(type);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Type_dup)(MPI_Datatype oldtype, MPI_Datatype* newtype) {
  MPI_MUST_RUN();
  Datatype* old = find_datatype(oldtype);
  if (old == nullptr) return raise(nullptr, MPI_ERR_TYPE, __func__);
  if (newtype == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "newtype is null");
  std::unique_ptr<Datatype, void (*)(Datatype*) noexcept> type(new Datatype, destroy);
  type->size_ = old->size_;
  type->lb_ = old->lb_;
  type->ub_ = old->ub_;
  type->true_lb_ = old->true_lb_;
  type->true_ub_ = old->true_ub_;
  type->align_ = old->align_;
  type->committed_ = old->committed_;
  type->contiguous_ = old->contiguous_;
  type->resized_ = old->resized_;
  type->basic_ = old->basic_;
  type->class_ = old->class_;
  type->layout_ = old->layout_;
  type->signature_ = old->signature_;
  type->combiner_ = MPI_COMBINER_DUP;
  type->types_.push_back(old);
  retain(old);
  const auto attributes = old->attributes_.prepare_copy(type->attributes_);
  type->handle_ = datatypes().insert(type.get());
  if (type->handle_ == nullptr) return raise(nullptr, MPI_ERR_NO_MEM, __func__);
  const int code = type->attributes_.take(oldtype, attributes);
  if (code != MPI_SUCCESS) {
    datatypes().erase(type->handle_);
    return raise(nullptr, code, __func__);
  }
  *newtype = type.release()->handle_;
  return MPI_SUCCESS;
}

MPI_FUNCTION(Type_size)(MPI_Datatype type, int* size) { return get_size(type, size, __func__); }
MPI_FUNCTION(Type_size_c)(MPI_Datatype type, MPI_Count* size) {
  return get_size(type, size, __func__);
}
MPI_FUNCTION(Type_size_x)(MPI_Datatype type, MPI_Count* size) {
  return get_size(type, size, __func__);
}
MPI_FUNCTION(Type_get_extent)(MPI_Datatype type, MPI_Aint* lb, MPI_Aint* extent) {
  return get_extent(type, lb, extent, false, __func__);
}
MPI_FUNCTION(Type_get_extent_c)(MPI_Datatype type, MPI_Count* lb, MPI_Count* extent) {
  return get_extent(type, lb, extent, false, __func__);
}
MPI_FUNCTION(Type_get_extent_x)(MPI_Datatype type, MPI_Count* lb, MPI_Count* extent) {
  return get_extent(type, lb, extent, false, __func__);
}
MPI_FUNCTION(Type_get_true_extent)(MPI_Datatype type, MPI_Aint* lb, MPI_Aint* extent) {
  return get_extent(type, lb, extent, true, __func__);
}
MPI_FUNCTION(Type_get_true_extent_c)(MPI_Datatype type, MPI_Count* lb, MPI_Count* extent) {
  return get_extent(type, lb, extent, true, __func__);
}
MPI_FUNCTION(Type_get_true_extent_x)(MPI_Datatype type, MPI_Count* lb, MPI_Count* extent) {
  return get_extent(type, lb, extent, true, __func__);
}

MPI_FUNCTION(Type_get_envelope)
(MPI_Datatype type, int* num_integers, int* num_addresses, int* num_datatypes, int* combiner) {
  return get_envelope<int>(type, num_integers, num_addresses, nullptr, num_datatypes, combiner,
                           __func__);
}
MPI_FUNCTION(Type_get_envelope_c)
(MPI_Datatype type, MPI_Count* num_integers, MPI_Count* num_addresses, MPI_Count* num_large_counts,
 MPI_Count* num_datatypes, int* combiner) {
  return get_envelope<MPI_Count>(type, num_integers, num_addresses, num_large_counts, num_datatypes,
                                 combiner, __func__);
}
MPI_FUNCTION(Type_get_contents)
(MPI_Datatype type, int max_integers, int max_addresses, int max_datatypes, int integers[],
 MPI_Aint addresses[], MPI_Datatype types[]) {
  return get_contents(type, max_integers, max_addresses, 0, max_datatypes, integers, addresses,
                      nullptr, types, __func__);
}
MPI_FUNCTION(Type_get_contents_c)
(MPI_Datatype type, MPI_Count max_integers, MPI_Count max_addresses, MPI_Count max_large_counts,
 MPI_Count max_datatypes, int integers[], MPI_Aint addresses[], MPI_Count large_counts[],
 MPI_Datatype types[]) {
  return get_contents(type, max_integers, max_addresses, max_large_counts, max_datatypes, integers,
                      addresses, large_counts, types, __func__);
}

MPI_FUNCTION(Type_set_name)(MPI_Datatype handle, const char* name) {
  MPI_MUST_RUN();
  Datatype* type = find_datatype(handle);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, __func__);
  if (name == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "the name is null");
  type->name_.assign(name, strnlen(name, MPI_MAX_OBJECT_NAME - 1));
  return MPI_SUCCESS;
}
MPI_FUNCTION(Type_get_name)(MPI_Datatype handle, char* name, int* length) {
  MPI_MUST_RUN();
  if (name == nullptr || length == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "an argument is null");
  if (handle == MPI_DATATYPE_NULL) return copy_name("MPI_DATATYPE_NULL", name, length);
  const Datatype* type = find_datatype(handle);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, __func__);
  return copy_name(type->name_, name, length);
}

MPI_FUNCTION(Type_match_size)(int typeclass, int size, MPI_Datatype* type) {
  MPI_MUST_RUN();
  if (type == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "datatype is null");
  const auto pick = [&](std::initializer_list<MPI_Datatype> types) {
    for (MPI_Datatype candidate : types) {
      const Datatype* found = find_datatype(candidate);
      if (found == nullptr || found->size() != static_cast<std::size_t>(size)) continue;
      *type = candidate;
      return MPI_SUCCESS;
    }
    return raise(nullptr, MPI_ERR_ARG, __func__, "there is no type of that class and size");
  };
  switch (typeclass) {
    case MPI_TYPECLASS_INTEGER:
      return pick({MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_INTEGER16});
    case MPI_TYPECLASS_REAL:
      return pick({MPI_REAL2, MPI_REAL4, MPI_REAL8, MPI_REAL16, MPI_LONG_DOUBLE});
    case MPI_TYPECLASS_COMPLEX:
      return pick(
          {MPI_COMPLEX4, MPI_COMPLEX8, MPI_COMPLEX16, MPI_COMPLEX32, MPI_C_LONG_DOUBLE_COMPLEX});
    default:
      return raise(nullptr, MPI_ERR_ARG, __func__, "the type class is unknown");
  }
}

MPI_FUNCTION(Type_create_keyval)
(MPI_Type_copy_attr_function* copy, MPI_Type_delete_attr_function* drop, int* keyval,
 void* extra_state) {
  return create_keyval(Kind::datatype, reinterpret_cast<void (*)()>(copy),
                       reinterpret_cast<void (*)()>(drop), keyval, extra_state, __func__);
}
MPI_FUNCTION(Type_free_keyval)(int* keyval) {
  return free_keyval(Kind::datatype, keyval, __func__);
}
MPI_FUNCTION(Type_set_attr)(MPI_Datatype handle, int keyval, void* value) {
  MPI_MUST_RUN();
  Datatype* type = find_datatype(handle);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, __func__);
  const int code = set_attribute(type->attributes_, Kind::datatype, handle, keyval, value);
  return code == MPI_SUCCESS ? code : raise(nullptr, code, __func__);
}
MPI_FUNCTION(Type_get_attr)(MPI_Datatype handle, int keyval, void* value, int* flag) {
  MPI_MUST_RUN();
  const Datatype* type = find_datatype(handle);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, __func__);
  if (value == nullptr || flag == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "an argument is null");
  const int code = get_attribute(type->attributes_, Kind::datatype, keyval, value, flag);
  return code == MPI_SUCCESS ? code : raise(nullptr, code, __func__);
}
MPI_FUNCTION(Type_delete_attr)(MPI_Datatype handle, int keyval) {
  MPI_MUST_RUN();
  Datatype* type = find_datatype(handle);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, __func__);
  const int code = delete_attribute(type->attributes_, Kind::datatype, handle, keyval);
  return code == MPI_SUCCESS ? code : raise(nullptr, code, __func__);
}

MPI_FUNCTION(Type_toint)(MPI_Datatype type) { return DatatypeTable::to_int(type); }
MPI_ALIAS(Type_fromint)
extern "C" MPI_Datatype PMPI_Type_fromint(int number) { return datatypes().from_int(number); }

MPI_FUNCTION(Get_address)(const void* location, MPI_Aint* address) {
  if (address == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "address is null");
  *address = reinterpret_cast<MPI_Aint>(location);
  return MPI_SUCCESS;
}
// Addresses are unsigned: the sum and difference may wrap.
MPI_ALIAS(Aint_add)
extern "C" MPI_Aint PMPI_Aint_add(MPI_Aint base, MPI_Aint displacement) {
  return static_cast<MPI_Aint>(static_cast<std::uintptr_t>(base) +
                               static_cast<std::uintptr_t>(displacement));
}
MPI_ALIAS(Aint_diff)
extern "C" MPI_Aint PMPI_Aint_diff(MPI_Aint a, MPI_Aint b) {
  return static_cast<MPI_Aint>(static_cast<std::uintptr_t>(a) - static_cast<std::uintptr_t>(b));
}
