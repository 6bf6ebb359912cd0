// Receives.
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

// Fills in the status of a receive that ended and raises its error, for blocking calls.
inline int conclude(Comm* comm, tagged::Request& request, int source, int tag, MPI_Status* status,
                    const char* function) {
  if (request.code == Code::ok) [[likely]] {
    fill_status(status, comm->rank_of_world(request.peer), request.tag,
                static_cast<std::int64_t>(request.received));
    return MPI_SUCCESS;
  }
  if (request.code == Code::truncated)
    fill_status(status, comm->rank_of_world(request.peer), request.tag,
                static_cast<std::int64_t>(request.length));
  else
    fill_status(status, source, tag, 0);
  const int code = error_class(request.code, comm);
  if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = code;
  return raise_status(comm, Status(request.code, engine->describe(request)), function);
}

[[gnu::noinline]] int receive_waiting(Comm* comm, void* buffer, MPI_Count count, Datatype* type,
                                      int source, int tag, MPI_Status* status,
                                      const char* function) {
  BlockingTransfer transfer;
  const int code = begin_receive(transfer, *comm, buffer, count, type, source, tag);
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise(comm, code, function);
  wait_progressing(transfer.request);
  return conclude(comm, transfer.request, source, tag, status, function);
}

// Tries to receive without a request. The arguments were checked, and the source is not
// MPI_PROC_NULL.
inline bool receive_at_once(const Comm& comm, void* buffer, MPI_Count count, const Datatype& type,
                            int source, int tag, MPI_Status* status) {
  if (source == MPI_ANY_SOURCE || !type.is_contiguous()) return false;
  std::size_t bytes;
  if (!bytes_of(count, type, bytes)) return false;
  void* data = first_byte(buffer, type);
  if (data == nullptr && bytes != 0) [[unlikely]]
    return false;
  tagged::MessageInfo info;
  if (!engine->try_receive(comm.world(source), comm.context_for(source, tag), engine_tag(tag), data,
                           bytes, info))
    return false;
  fill_status(status, source, info.tag, static_cast<std::int64_t>(info.bytes));
  return true;
}

inline int recv(void* buffer, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                MPI_Comm handle, MPI_Status* status, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_COMM, function);
  Datatype* type;
  const int code = check_receive(*comm, count, datatype, source, tag, type);
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise_wrong(comm, code, count, source, tag, function);
  if (source == MPI_PROC_NULL) [[unlikely]] {
    fill_proc_null(status);
    return MPI_SUCCESS;
  }
  if (receive_at_once(*comm, buffer, count, *type, source, tag, status)) [[likely]]
    return MPI_SUCCESS;
  return receive_waiting(comm, buffer, count, type, source, tag, status, function);
}

inline int irecv(void* buffer, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                 MPI_Comm handle, MPI_Request* out, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_COMM, function);
  Datatype* type;
  int code = check_receive(*comm, count, datatype, source, tag, type);
  if (code != MPI_SUCCESS) [[unlikely]]
    return refuse(comm, code, count, source, tag, out, function);
  if (out == nullptr) [[unlikely]]
    return raise(comm, MPI_ERR_ARG, function, "request is null");
  if (source == MPI_PROC_NULL) [[unlikely]] {
    *out = done_none_handle;
    return MPI_SUCCESS;
  }
  RequestObject* request = new_request(comm, RequestObject::Kind::receive);
  if (request == nullptr) [[unlikely]]
    return raise(comm, MPI_ERR_NO_MEM, function);
  request->peer = source;
  request->tag = tag;
  std::size_t bytes;
  if (type->is_contiguous() && bytes_of(count, *type, bytes)) [[likely]] {
    void* data = first_byte(buffer, *type);
    if (data == nullptr && bytes != 0) [[unlikely]] {
      free_request(request);
      return raise(comm, MPI_ERR_BUFFER, function);
    }
    engine->irecv(request->base, engine_source(*comm, source), comm->context_for(source, tag),
                  engine_tag(tag), data, bytes);
    note_start();
  } else {
    request->buffer = buffer;
    request->count = count;
    request->type = type;
    retain(type);
    code = start_receive(request);
    if (code != MPI_SUCCESS) {
      free_request(request);
      return raise(comm, code, function);
    }
  }
  *out = request->handle;
  return MPI_SUCCESS;
}

int sendrecv(const void* send_buffer, MPI_Count send_count, MPI_Datatype send_datatype,
             int destination, int send_tag, void* receive_buffer, MPI_Count receive_count,
             MPI_Datatype receive_datatype, int source, int receive_tag, MPI_Comm handle,
             MPI_Status* status, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_COMM, function);
  Datatype* send_type;
  Datatype* receive_type;
  int code = check_send(*comm, send_count, send_datatype, destination, send_tag, send_type);
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise_wrong(comm, code, send_count, destination, send_tag, function);
  code = check_receive(*comm, receive_count, receive_datatype, source, receive_tag, receive_type);
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise_wrong(comm, code, receive_count, source, receive_tag, function);
  // Checked before anything is received.
  std::size_t bytes;
  if (destination != MPI_PROC_NULL && !bytes_of(send_count, *send_type, bytes))
    return raise(comm, MPI_ERR_COUNT, function);
  BlockingTransfer receive;
  BlockingTransfer send;
  if (source != MPI_PROC_NULL) {
    code = begin_receive(receive, *comm, receive_buffer, receive_count, receive_type, source,
                         receive_tag);
    if (code != MPI_SUCCESS) return raise(comm, code, function);
  }
  Code sent = Code::ok;
  if (destination != MPI_PROC_NULL) {
    code =
        begin_send(send, *comm, send_buffer, send_count, send_type, destination, send_tag, false);
    if (code != MPI_SUCCESS) {
      // Nothing was sent; the posted receive must not outlive its request.
      if (source != MPI_PROC_NULL) {
        engine->cancel(receive.request);
        wait_progressing(receive.request);
      }
      return raise(comm, code, function);
    }
    sent = wait_progressing(send.request);
  }
  if (source == MPI_PROC_NULL)
    fill_proc_null(status);
  else
    wait_progressing(receive.request);
  if (sent != Code::ok)
    return raise_status(comm, Status(sent, engine->describe(send.request)), function);
  if (source == MPI_PROC_NULL) return MPI_SUCCESS;
  return conclude(comm, receive.request, source, receive_tag, status, function);
}

int sendrecv_replace(void* buffer, MPI_Count count, MPI_Datatype datatype, int destination,
                     int send_tag, int source, int receive_tag, MPI_Comm handle, MPI_Status* status,
                     const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) [[unlikely]]
    return raise(nullptr, MPI_ERR_COMM, function);
  Datatype* type;
  int code = check_send(*comm, count, datatype, destination, send_tag, type);
  if (code == MPI_SUCCESS) code = check_receive(*comm, count, datatype, source, receive_tag, type);
  if (code != MPI_SUCCESS) [[unlikely]]
    return raise(comm, code, function);
  if (count * type->size() != 0 && first_byte(buffer, *type) == nullptr)
    return raise(comm, MPI_ERR_BUFFER, function);
  // The data to send must be copied out before the first byte arrives.
  std::unique_ptr<char[]> copy(
      new (std::nothrow) char[static_cast<std::size_t>(count) * type->size() + 1]);
  if (copy == nullptr) return raise(comm, MPI_ERR_NO_MEM, function);
  if (destination != MPI_PROC_NULL) type->pack(copy.get(), buffer, count);
  const std::size_t bytes = static_cast<std::size_t>(count) * type->size();
  return sendrecv(copy.get(), static_cast<MPI_Count>(bytes), MPI_BYTE, destination, send_tag,
                  buffer, count, datatype, source, receive_tag, handle, status, function);
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Recv)
(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
 MPI_Status* status) {
  return recv(buf, count, datatype, source, tag, comm, status, __func__);
}
MPI_FUNCTION(Recv_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
 MPI_Status* status) {
  return recv(buf, count, datatype, source, tag, comm, status, __func__);
}
MPI_FUNCTION(Irecv)
(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return irecv(buf, count, datatype, source, tag, comm, request, __func__);
}
MPI_FUNCTION(Irecv_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
 MPI_Request* request) {
  return irecv(buf, count, datatype, source, tag, comm, request, __func__);
}
MPI_FUNCTION(Sendrecv)
(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf,
 int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status* status) {
  return sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                  recvtag, comm, status, __func__);
}
MPI_FUNCTION(Sendrecv_c)
(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
 void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
 MPI_Status* status) {
  return sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                  recvtag, comm, status, __func__);
}
MPI_FUNCTION(Sendrecv_replace)
(void* buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,
 MPI_Comm comm, MPI_Status* status) {
  return sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, comm, status,
                          __func__);
}
MPI_FUNCTION(Sendrecv_replace_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,
 MPI_Comm comm, MPI_Status* status) {
  return sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, comm, status,
                          __func__);
}
