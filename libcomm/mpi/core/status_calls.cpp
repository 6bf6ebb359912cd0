// Queries of statuses, and the setters that generalized requests use.
#include <climits>

#include "mpi/core/state.hpp"
#include "mpi/core/status.hpp"
#include "mpi/datatype/datatype.hpp"

namespace weft::mpi {
namespace {

// Stores a count; MPI_UNDEFINED if it does not fit into `Count`.
template <class Count>
Count narrow(MPI_Count count) {
  if constexpr (sizeof(Count) < sizeof(MPI_Count))
    return count > INT_MAX ? MPI_UNDEFINED : static_cast<Count>(count);
  else
    return count;
}

template <class Count>
int get_count(const MPI_Status* status, MPI_Datatype datatype, Count* count, const char* function) {
  MPI_MUST_RUN_IN(function);
  if (status == nullptr || count == nullptr)
    return raise(nullptr, MPI_ERR_ARG, function, "status or count is null");
  const Datatype* type = find_datatype(datatype);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, function);
  const std::int64_t bytes = load_private(*status).bytes;
  const auto size = static_cast<std::int64_t>(type->size());
  if (size == 0)
    *count = bytes == 0 ? 0 : MPI_UNDEFINED;
  else
    *count = bytes % size != 0 ? MPI_UNDEFINED : narrow<Count>(bytes / size);
  return MPI_SUCCESS;
}

template <class Count>
int get_elements(const MPI_Status* status, MPI_Datatype datatype, Count* count,
                 const char* function) {
  MPI_MUST_RUN_IN(function);
  if (status == nullptr || count == nullptr)
    return raise(nullptr, MPI_ERR_ARG, function, "status or count is null");
  const Datatype* type = find_datatype(datatype);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, function);
  const std::int64_t elements = type->elements(load_private(*status).bytes);
  *count = elements < 0 ? MPI_UNDEFINED : narrow<Count>(elements);
  return MPI_SUCCESS;
}

int set_elements(MPI_Status* status, MPI_Datatype datatype, MPI_Count count, const char* function) {
  MPI_MUST_RUN_IN(function);
  if (status == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "status is null");
  if (count < 0) return raise(nullptr, MPI_ERR_COUNT, function);
  const Datatype* type = find_datatype(datatype);
  if (type == nullptr) return raise(nullptr, MPI_ERR_TYPE, function);
  store_private(*status, type->bytes_of_elements(count), load_private(*status).cancelled != 0);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Get_count)(const MPI_Status* status, MPI_Datatype datatype, int* count) {
  return get_count(status, datatype, count, __func__);
}
MPI_FUNCTION(Get_count_c)(const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count) {
  return get_count(status, datatype, count, __func__);
}
MPI_FUNCTION(Get_elements)(const MPI_Status* status, MPI_Datatype datatype, int* count) {
  return get_elements(status, datatype, count, __func__);
}
MPI_FUNCTION(Get_elements_c)(const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count) {
  return get_elements(status, datatype, count, __func__);
}
MPI_FUNCTION(Get_elements_x)(const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count) {
  return get_elements(status, datatype, count, __func__);
}
MPI_FUNCTION(Status_set_elements)(MPI_Status* status, MPI_Datatype datatype, int count) {
  return set_elements(status, datatype, count, __func__);
}
MPI_FUNCTION(Status_set_elements_c)(MPI_Status* status, MPI_Datatype datatype, MPI_Count count) {
  return set_elements(status, datatype, count, __func__);
}
MPI_FUNCTION(Status_set_elements_x)(MPI_Status* status, MPI_Datatype datatype, MPI_Count count) {
  return set_elements(status, datatype, count, __func__);
}

MPI_FUNCTION(Test_cancelled)(const MPI_Status* status, int* flag) {
  MPI_MUST_RUN();
  if (status == nullptr || flag == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "status or flag is null");
  *flag = load_private(*status).cancelled != 0;
  return MPI_SUCCESS;
}
MPI_FUNCTION(Status_set_cancelled)(MPI_Status* status, int flag) {
  MPI_MUST_RUN();
  if (status == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "status is null");
  store_private(*status, load_private(*status).bytes, flag != 0);
  return MPI_SUCCESS;
}

#define WEFT_STATUS_FIELD(name, field)                                                     \
  MPI_FUNCTION(Status_get_##name)(const MPI_Status* status, int* value) {                  \
    MPI_MUST_RUN();                                                                        \
    if (status == nullptr || value == nullptr)                                             \
      return raise(nullptr, MPI_ERR_ARG, __func__, "status or " #name " is null");         \
    *value = status->field;                                                                \
    return MPI_SUCCESS;                                                                    \
  }                                                                                        \
  MPI_FUNCTION(Status_set_##name)(MPI_Status * status, int value) {                        \
    MPI_MUST_RUN();                                                                        \
    if (status == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "status is null"); \
    status->field = value;                                                                 \
    return MPI_SUCCESS;                                                                    \
  }

WEFT_STATUS_FIELD(source, MPI_SOURCE)
WEFT_STATUS_FIELD(tag, MPI_TAG)
WEFT_STATUS_FIELD(error, MPI_ERROR)
