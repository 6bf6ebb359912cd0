// Types chosen by the numbers they must hold rather than by name: MPI_Type_create_f90_* (MPI 5.0
// section 19.1.7) and MPI_Type_get_value_index. They are predefined: equal arguments give the same
// handle, and programs do not free it.
#include <cfloat>
#include <map>
#include <mutex>
#include <tuple>

#include "mpi/core/state.hpp"
#include "mpi/datatype/datatype.hpp"

namespace weft::mpi {
namespace {

struct Made {
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, MPI_Datatype> handles;  // by combiner, p and r
};
Immortal<Made> made;

// Returns the type of this combiner and arguments, which is like `model`.
int deliver(int combiner, int p, int r, MPI_Datatype model, MPI_Datatype* out,
            const char* function) {
  const std::lock_guard lock(made->mutex);
  MPI_Datatype& handle = made->handles[{combiner, p, r}];
  if (handle == nullptr) {
    const Datatype& old = *find_datatype(model);
    auto* type = new Datatype;
    type->size_ = old.size_;
    type->ub_ = old.ub_;
    type->true_ub_ = old.true_ub_;
    type->align_ = old.align_;
    type->contiguous_ = old.contiguous_;
    type->basic_ = old.basic_;
    type->class_ = old.class_;
    type->layout_ = old.layout_;
    type->signature_ = old.signature_;
    type->committed_ = true;
    type->predefined_ = true;
    type->combiner_ = combiner;
    type->integers_.push_back(p);
    if (combiner != MPI_COMBINER_F90_INTEGER) type->integers_.push_back(r);
    handle = datatypes().insert(type);
    if (handle == nullptr || handle == MPI_DATATYPE_NULL) {
      made->handles.erase({combiner, p, r});
      destroy(type);
      return raise(nullptr, MPI_ERR_NO_MEM, function);
    }
    type->handle_ = handle;
  }
  *out = handle;
  return MPI_SUCCESS;
}

// Chooses the shortest of three formats that holds `p` decimal digits and the exponent range `r`;
// each may be MPI_UNDEFINED, but not both.
int pick_real(int combiner, int p, int r, const MPI_Datatype (&models)[3], MPI_Datatype* out,
              const char* function) {
  MPI_MUST_RUN_IN(function);
  if (out == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "newtype is null");
  if (p == MPI_UNDEFINED && r == MPI_UNDEFINED)
    return raise(nullptr, MPI_ERR_ARG, function, "neither precision nor range is given");
  constexpr int kDigits[] = {FLT_DIG, DBL_DIG, LDBL_DIG};
  constexpr int kRanges[] = {
      FLT_MAX_10_EXP < -FLT_MIN_10_EXP ? FLT_MAX_10_EXP : -FLT_MIN_10_EXP,
      DBL_MAX_10_EXP < -DBL_MIN_10_EXP ? DBL_MAX_10_EXP : -DBL_MIN_10_EXP,
      LDBL_MAX_10_EXP < -LDBL_MIN_10_EXP ? LDBL_MAX_10_EXP : -LDBL_MIN_10_EXP};
  for (int i = 0; i < 3; ++i)
    if ((p == MPI_UNDEFINED || p <= kDigits[i]) && (r == MPI_UNDEFINED || r <= kRanges[i]))
      return deliver(combiner, p, r, models[i], out, function);
  *out = MPI_DATATYPE_NULL;
  return raise(nullptr, MPI_ERR_ARG, function, "no type has that precision and range");
}

}  // namespace
}  // namespace weft::mpi

using namespace weft::mpi;  // NOLINT(google-build-using-namespace): bodies of a C interface

MPI_FUNCTION(Type_create_f90_real)(int p, int r, MPI_Datatype* newtype) {
  return pick_real(MPI_COMBINER_F90_REAL, p, r, {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE}, newtype,
                   __func__);
}
MPI_FUNCTION(Type_create_f90_complex)(int p, int r, MPI_Datatype* newtype) {
  return pick_real(MPI_COMBINER_F90_COMPLEX, p, r,
                   {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX}, newtype,
                   __func__);
}
MPI_FUNCTION(Type_create_f90_integer)(int r, MPI_Datatype* newtype) {
  MPI_MUST_RUN();
  if (newtype == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "newtype is null");
  struct Row {
    int range;  // decimal digits
    MPI_Datatype type;
  };
  for (const Row row :
       {Row{2, MPI_INT8_T}, Row{4, MPI_INT16_T}, Row{9, MPI_INT32_T}, Row{18, MPI_INT64_T}})
    if (r <= row.range) return deliver(MPI_COMBINER_F90_INTEGER, r, 0, row.type, newtype, __func__);
  *newtype = MPI_DATATYPE_NULL;
  return raise(nullptr, MPI_ERR_ARG, __func__, "no type has that range");
}

MPI_FUNCTION(Type_get_value_index)
(MPI_Datatype value_type, MPI_Datatype index_type, MPI_Datatype* pair_type) {
  MPI_MUST_RUN();
  if (find_datatype(value_type) == nullptr || find_datatype(index_type) == nullptr)
    return raise(nullptr, MPI_ERR_TYPE, __func__);
  if (pair_type == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "pair_type is null");
  struct Row {
    MPI_Datatype value, index, pair;
  };
  const Row rows[] = {{MPI_FLOAT, MPI_INT, MPI_FLOAT_INT},
                      {MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT},
                      {MPI_LONG, MPI_INT, MPI_LONG_INT},
                      {MPI_INT, MPI_INT, MPI_2INT},
                      {MPI_SHORT, MPI_INT, MPI_SHORT_INT},
                      {MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT},
                      {MPI_REAL, MPI_REAL, MPI_2REAL},
                      {MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION},
                      {MPI_INTEGER, MPI_INTEGER, MPI_2INTEGER}};
  // An unsupported pair is not an error.
  *pair_type = MPI_DATATYPE_NULL;
  for (const Row& row : rows)
    if (row.value == value_type && row.index == index_type) *pair_type = row.pair;
  return MPI_SUCCESS;
}
