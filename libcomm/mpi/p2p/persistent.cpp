// Persistent requests: the arguments are checked once, Start runs them again and again.
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

int init(Comm* comm, RequestObject::Kind kind, SendMode mode, void* buffer, MPI_Count count,
         Datatype* type, int peer, int tag, MPI_Request* out, const char* function) {
  if (out == nullptr) return raise(comm, MPI_ERR_ARG, function, "request is null");
  RequestObject* request = new_request(comm, kind);
  if (request == nullptr) return raise(comm, MPI_ERR_NO_MEM, function);
  request->persistent = true;
  request->active = false;
  request->mode = mode;
  request->buffer = buffer;
  request->count = count;
  request->type = type;
  retain(type);
  request->peer = peer;
  request->tag = tag;
  *out = request->handle;
  return MPI_SUCCESS;
}

int send_init(SendMode mode, const void* buffer, MPI_Count count, MPI_Datatype datatype,
              int destination, int tag, MPI_Comm handle, MPI_Request* out, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  Datatype* type;
  const int code = check_send(*comm, count, datatype, destination, tag, type);
  if (code != MPI_SUCCESS) return raise_wrong(comm, code, count, destination, tag, function);
  return init(comm, RequestObject::Kind::send, mode, const_cast<void*>(buffer), count, type,
              destination, tag, out, function);
}

int recv_init(void* buffer, MPI_Count count, MPI_Datatype datatype, int source, int tag,
              MPI_Comm handle, MPI_Request* out, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  Datatype* type;
  const int code = check_receive(*comm, count, datatype, source, tag, type);
  if (code != MPI_SUCCESS) return raise_wrong(comm, code, count, source, tag, function);
  return init(comm, RequestObject::Kind::receive, SendMode::standard, buffer, count, type, source,
              tag, out, function);
}

int start_request(MPI_Request handle, const char* function) {
  RequestObject* request = find_request(handle);
  if (request == nullptr || !request->persistent) return raise(nullptr, MPI_ERR_REQUEST, function);
  if (request->active)
    return raise(request->comm, MPI_ERR_REQUEST, function, "the request is active already");
  if (request->comm->is_revoked.load(std::memory_order_relaxed)) [[unlikely]]
    return raise(request->comm, MPIX_ERR_REVOKED, function);
  int code = MPI_SUCCESS;
  switch (request->kind) {
    case RequestObject::Kind::send:
      code = start_send(request);
      break;
    case RequestObject::Kind::receive:
      code = start_receive(request);
      break;
    default:
      request->base.complete.store(false, std::memory_order_relaxed);
      request->base.code = request->operation->start();
      request->active = request->base.code == Code::ok;
      if (request->active)
        add_operation(request);
      else if ((code = request->operation->refusal()) == MPI_SUCCESS)
        code = error_class(request->base.code, request->comm);
  }
  if (code == MPI_SUCCESS) return code;
  request->active = false;
  return raise(request->comm, code, function);
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

#define WEFT_SEND_INIT(name, mode)                                                              \
  MPI_FUNCTION(name)                                                                            \
  (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,         \
   MPI_Request* request) {                                                                      \
    return send_init(SendMode::mode, buf, count, datatype, dest, tag, comm, request, __func__); \
  }                                                                                             \
  MPI_FUNCTION(name##_c)                                                                        \
  (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,   \
   MPI_Request* request) {                                                                      \
    return send_init(SendMode::mode, buf, count, datatype, dest, tag, comm, request, __func__); \
  }

WEFT_SEND_INIT(Send_init, standard)
WEFT_SEND_INIT(Rsend_init, ready)
WEFT_SEND_INIT(Ssend_init, synchronous)
WEFT_SEND_INIT(Bsend_init, buffered)

MPI_FUNCTION(Recv_init)
(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return recv_init(buf, count, datatype, source, tag, comm, request, __func__);
}
MPI_FUNCTION(Recv_init_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return recv_init(buf, count, datatype, source, tag, comm, request, __func__);
}

MPI_FUNCTION(Start)(MPI_Request* request) {
  if (request == nullptr) return raise(nullptr, MPI_ERR_ARG, __func__, "request is null");
  return start_request(*request, __func__);
}

MPI_FUNCTION(Startall)(int count, MPI_Request* requests) {
  MPI_MUST_RUN();
  if (count < 0) return raise(nullptr, MPI_ERR_COUNT, __func__);
  if (count > 0 && requests == nullptr)
    return raise(nullptr, MPI_ERR_ARG, __func__, "the array of requests is null");
  for (int i = 0; i < count; ++i) {
    const int code = start_request(requests[i], __func__);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}
