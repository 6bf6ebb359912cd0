// Sends. The common case, a small message of a contiguous type, takes one try_send and touches no
// request.
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

[[gnu::noinline]] int send_waiting(Comm* comm, const void* buffer, MPI_Count count, Datatype* type,
                                   int destination, int tag, bool synchronous,
                                   const char* function) {
  BlockingTransfer transfer;
  const int code = begin_send(transfer, *comm, buffer, count, type, destination, tag, synchronous);
  if (code != MPI_SUCCESS) return raise(comm, code, function);
  if (wait_progressing(transfer.request) != Code::ok)
    return raise_status(comm, Status(transfer.request.code, engine->describe(transfer.request)),
                        function);
  return MPI_SUCCESS;
}

// Tries to send without a request; later: see Engine::try_send. The arguments were checked and the
// peer exists.
inline bool send_at_once(const Comm& comm, const void* buffer, MPI_Count count,
                         const Datatype& type, int destination, int tag, bool later) {
  if (!type.is_contiguous()) return false;
  std::size_t bytes;
  if (!bytes_of(count, type, bytes)) return false;
  const void* data = first_byte(buffer, type);
  if (data == nullptr && bytes != 0) [[unlikely]]
    return false;
  return engine->try_send(comm.world(destination), comm.context_for(destination, tag), tag, data,
                          bytes, later);
}

template <SendMode mode>
inline int send(const void* buffer, MPI_Count count, MPI_Datatype datatype, int destination,
                int tag, MPI_Comm handle, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_COMM, function);
  Datatype* type;
  const int code = check_send(*comm, count, datatype, destination, tag, type);
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise_wrong(comm, code, count, destination, tag, function);
  if (destination == MPI_PROC_NULL) [[unlikely]]
    return MPI_SUCCESS;
  if constexpr (mode == SendMode::buffered) {
    const int result = send_buffered(*comm, buffer, count, type, destination, tag);
    return result == MPI_SUCCESS ? result : raise(comm, result, function);
  } else {
    if constexpr (mode == SendMode::standard) {
      if (send_at_once(*comm, buffer, count, *type, destination, tag, false)) [[likely]]
        return MPI_SUCCESS;
    }
    return send_waiting(comm, buffer, count, type, destination, tag, mode == SendMode::synchronous,
                        function);
  }
}

[[gnu::noinline]] int isend_request(Comm* comm, const void* buffer, MPI_Count count, Datatype* type,
                                    int destination, int tag, SendMode mode, MPI_Request* handle,
                                    const char* function) {
  RequestObject* request = new_request(comm, RequestObject::Kind::send);
  if (request == nullptr) return raise(comm, MPI_ERR_NO_MEM, function);
  request->buffer = const_cast<void*>(buffer);
  request->count = count;
  request->type = type;
  retain(type);
  request->peer = destination;
  request->tag = tag;
  request->mode = mode;
  const int code = start_send(request);
  if (code != MPI_SUCCESS) {
    free_request(request);
    return raise(comm, code, function);
  }
  *handle = request->handle;
  return MPI_SUCCESS;
}

template <SendMode mode>
inline int isend(const void* buffer, MPI_Count count, MPI_Datatype datatype, int destination,
                 int tag, MPI_Comm handle, MPI_Request* request, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_COMM, function);
  Datatype* type;
  const int code = check_send(*comm, count, datatype, destination, tag, type);
  if (code != MPI_SUCCESS) [[unlikely]]
    return refuse(comm, code, count, destination, tag, request, function);
  if (request == nullptr) [[unlikely]]
    return raise(comm, MPI_ERR_ARG, function, "request is null");
  if (destination == MPI_PROC_NULL) [[unlikely]] {
    *request = done_send_handle;
    return MPI_SUCCESS;
  }
  if constexpr (mode == SendMode::buffered) {
    const int result = send_buffered(*comm, buffer, count, type, destination, tag);
    if (result != MPI_SUCCESS) return raise(comm, result, function);
    *request = done_send_handle;
    return MPI_SUCCESS;
  } else {
    if constexpr (mode == SendMode::standard) {
      if (send_at_once(*comm, buffer, count, *type, destination, tag, true)) [[likely]] {
        *request = done_send_handle;
        return MPI_SUCCESS;
      }
    }
    return isend_request(comm, buffer, count, type, destination, tag, mode, request, function);
  }
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

// A ready send is a standard send: nothing is gained from knowing that the receive is posted.
#define WEFT_SEND(name, mode)                                                                   \
  MPI_FUNCTION(name)                                                                            \
  (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {       \
    return send<SendMode::mode>(buf, count, datatype, dest, tag, comm, __func__);               \
  }                                                                                             \
  MPI_FUNCTION(name##_c)                                                                        \
  (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) { \
    return send<SendMode::mode>(buf, count, datatype, dest, tag, comm, __func__);               \
  }
#define WEFT_ISEND(name, mode)                                                                \
  MPI_FUNCTION(name)                                                                          \
  (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,       \
   MPI_Request* request) {                                                                    \
    return isend<SendMode::mode>(buf, count, datatype, dest, tag, comm, request, __func__);   \
  }                                                                                           \
  MPI_FUNCTION(name##_c)                                                                      \
  (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, \
   MPI_Request* request) {                                                                    \
    return isend<SendMode::mode>(buf, count, datatype, dest, tag, comm, request, __func__);   \
  }

WEFT_SEND(Send, standard)
WEFT_SEND(Rsend, standard)
WEFT_SEND(Ssend, synchronous)
WEFT_SEND(Bsend, buffered)
WEFT_ISEND(Isend, standard)
WEFT_ISEND(Irsend, standard)
WEFT_ISEND(Issend, synchronous)
WEFT_ISEND(Ibsend, buffered)
