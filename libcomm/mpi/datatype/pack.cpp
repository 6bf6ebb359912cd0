// MPI_Pack and MPI_Unpack: MPI 5.0 section 5.2. The packed form is the elements' bytes in order.
#include <climits>

#include "mpi/comm/comm.hpp"
#include "mpi/datatype/datatype.hpp"

namespace weft::mpi {
namespace {

template <class Count>
int check(Comm* comm, Count count, MPI_Datatype handle, const Datatype*& type,
          const char* function) {
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (count < 0) return raise(comm, MPI_ERR_COUNT, function);
  type = find_datatype(handle);
  if (type == nullptr || !type->committed()) return raise(comm, MPI_ERR_TYPE, function);
  return MPI_SUCCESS;
}

// Computes the bytes of `count` elements; false: more than 63 bits hold.
bool data_bytes(const Datatype& type, std::int64_t count, std::int64_t& bytes) {
  return !__builtin_mul_overflow(static_cast<std::int64_t>(type.size()), count, &bytes);
}

template <class Count>
int pack(const void* in, Count count, MPI_Datatype handle, void* out, Count room, Count* position,
         MPI_Comm comm_handle, const char* function) {
  Comm* comm = find_comm(comm_handle);
  const Datatype* type = nullptr;
  if (const int code = check(comm, count, handle, type, function); code != MPI_SUCCESS) return code;
  if (position == nullptr) return raise(comm, MPI_ERR_ARG, function, "position is null");
  std::int64_t bytes = 0;
  if (*position < 0 || !data_bytes(*type, count, bytes) || room < *position ||
      bytes > room - *position)
    return raise(comm, MPI_ERR_TRUNCATE, function, "the data do not fit into the buffer");
  if (bytes != 0) type->pack(static_cast<char*>(out) + *position, in, count);
  *position += static_cast<Count>(bytes);
  return MPI_SUCCESS;
}

template <class Count>
int unpack(const void* in, Count room, Count* position, void* out, Count count, MPI_Datatype handle,
           MPI_Comm comm_handle, const char* function) {
  Comm* comm = find_comm(comm_handle);
  const Datatype* type = nullptr;
  if (const int code = check(comm, count, handle, type, function); code != MPI_SUCCESS) return code;
  if (position == nullptr) return raise(comm, MPI_ERR_ARG, function, "position is null");
  std::int64_t bytes = 0;
  if (*position < 0 || !data_bytes(*type, count, bytes) || room < *position ||
      bytes > room - *position)
    return raise(comm, MPI_ERR_TRUNCATE, function, "the buffer holds less than that");
  if (bytes != 0)
    type->unpack(out, static_cast<const char*>(in) + *position, count,
                 static_cast<std::size_t>(bytes));
  *position += static_cast<Count>(bytes);
  return MPI_SUCCESS;
}

template <class Count>
int pack_size(Count count, MPI_Datatype handle, MPI_Comm comm_handle, Count* size,
              const char* function) {
  Comm* comm = find_comm(comm_handle);
  const Datatype* type = nullptr;
  if (const int code = check(comm, count, handle, type, function); code != MPI_SUCCESS) return code;
  if (size == nullptr) return raise(comm, MPI_ERR_ARG, function, "size is null");
  std::int64_t bytes = 0;
  if (!data_bytes(*type, count, bytes))
    return raise(comm, MPI_ERR_COUNT, function, "the data are beyond 2^63 bytes");
  if (sizeof(Count) < sizeof bytes && bytes > INT_MAX)
    *size = MPI_UNDEFINED;
  else
    *size = static_cast<Count>(bytes);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft::mpi;  // NOLINT(google-build-using-namespace): bodies of a C interface

MPI_FUNCTION(Pack)
(const void* in, int count, MPI_Datatype type, void* out, int room, int* position, MPI_Comm comm) {
  return pack(in, count, type, out, room, position, comm, __func__);
}
MPI_FUNCTION(Pack_c)
(const void* in, MPI_Count count, MPI_Datatype type, void* out, MPI_Count room, MPI_Count* position,
 MPI_Comm comm) {
  return pack(in, count, type, out, room, position, comm, __func__);
}
MPI_FUNCTION(Unpack)
(const void* in, int room, int* position, void* out, int count, MPI_Datatype type, MPI_Comm comm) {
  return unpack(in, room, position, out, count, type, comm, __func__);
}
MPI_FUNCTION(Unpack_c)
(const void* in, MPI_Count room, MPI_Count* position, void* out, MPI_Count count, MPI_Datatype type,
 MPI_Comm comm) {
  return unpack(in, room, position, out, count, type, comm, __func__);
}
MPI_FUNCTION(Pack_size)(int count, MPI_Datatype type, MPI_Comm comm, int* size) {
  return pack_size(count, type, comm, size, __func__);
}
MPI_FUNCTION(Pack_size_c)(MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Count* size) {
  return pack_size(count, type, comm, size, __func__);
}
