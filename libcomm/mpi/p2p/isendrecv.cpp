// MPI_Isendrecv and MPI_Isendrecv_replace: a send and a receive under one request.
#include <array>

#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

class SendAndReceive final : public Operation {
 public:
  SendAndReceive(Comm& comm, int source, bool sends, std::unique_ptr<char[]> copy)
      : comm_(comm), source_(source), sends_(sends), copy_(std::move(copy)) {}
  ~SendAndReceive() override {
    for (Datatype* type : types_)
      if (type != nullptr) release(type);
  }
  int begin(const void* send_buffer, MPI_Count send_count, Datatype* send_type, int destination,
            int send_tag, void* receive_buffer, MPI_Count receive_count, Datatype* receive_type,
            int receive_tag) {
    types_ = {send_type, receive_type};
    for (Datatype* type : types_) retain(type);
    // Checked before anything is received.
    if (std::size_t bytes; sends_ && !bytes_of(send_count, *send_type, bytes)) return MPI_ERR_COUNT;
    if (receives()) {
      const int code = begin_receive(receive_, comm_, receive_buffer, receive_count, receive_type,
                                     source_, receive_tag);
      if (code != MPI_SUCCESS) return code;
    }
    if (!sends_) return MPI_SUCCESS;
    const int code =
        begin_send(send_, comm_, send_buffer, send_count, send_type, destination, send_tag, false);
    if (code != MPI_SUCCESS && receives()) {
      engine->cancel(receive_.request);
      wait_progressing(receive_.request);
    }
    return code;
  }
  Code start() override { return Code::ok; }
  bool advance(Code& code) override {
    if (sends_ && !send_.request.is_complete()) return false;
    if (receives() && !receive_.request.is_complete()) return false;
    if (sends_) code = wait_progressing(send_.request);
    if (receives()) {
      const Code received = wait_progressing(receive_.request);
      if (code == Code::ok) code = received;
    }
    return true;
  }
  void describe(MPI_Status* status) const override {
    if (!receives()) return fill_proc_null(status);
    const tagged::Request& request = receive_.request;
    fill_status(status, comm_.rank_of_world(request.peer), request.tag,
                static_cast<std::int64_t>(std::min(request.received, request.length)));
  }

 private:
  bool receives() const noexcept { return source_ != MPI_PROC_NULL; }

  Comm& comm_;  // counted by the request
  int source_;
  bool sends_;
  std::unique_ptr<char[]> copy_;  // of the data sent, for the replacing form
  std::array<Datatype*, 2> types_{};
  BlockingTransfer send_;
  BlockingTransfer receive_;
};

struct Arguments {
  const void* send_buffer;
  MPI_Count send_count;
  MPI_Datatype send_datatype;
  int destination;
  int send_tag;
  void* receive_buffer;
  MPI_Count receive_count;
  MPI_Datatype receive_datatype;
  int source;
  int receive_tag;
};

int isendrecv(Arguments a, bool replaces, MPI_Comm handle, MPI_Request* out, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  Datatype* send_type;
  Datatype* receive_type;
  int code = check_send(*comm, a.send_count, a.send_datatype, a.destination, a.send_tag, send_type);
  if (code != MPI_SUCCESS)
    return raise_wrong(comm, code, a.send_count, a.destination, a.send_tag, function);
  code = check_receive(*comm, a.receive_count, a.receive_datatype, a.source, a.receive_tag,
                       receive_type);
  if (code != MPI_SUCCESS)
    return raise_wrong(comm, code, a.receive_count, a.source, a.receive_tag, function);
  if (out == nullptr) return raise(comm, MPI_ERR_ARG, function, "request is null");
  std::unique_ptr<char[]> copy;
  if (replaces) {
    // The data to send must be copied out before the first byte arrives.
    const std::size_t bytes = static_cast<std::size_t>(a.send_count) * send_type->size();
    if (bytes != 0 && first_byte(a.send_buffer, *send_type) == nullptr)
      return raise(comm, MPI_ERR_BUFFER, function);
    copy.reset(new (std::nothrow) char[bytes + 1]);
    if (copy == nullptr) return raise(comm, MPI_ERR_NO_MEM, function);
    if (a.destination != MPI_PROC_NULL) send_type->pack(copy.get(), a.send_buffer, a.send_count);
    a.send_buffer = copy.get();
    a.send_count = static_cast<MPI_Count>(bytes);
    send_type = find_datatype(MPI_BYTE);
  }
  RequestPtr request(new_request(comm, RequestObject::Kind::operation));
  if (request == nullptr) return raise(comm, MPI_ERR_NO_MEM, function);
  auto operation = std::make_unique<SendAndReceive>(*comm, a.source, a.destination != MPI_PROC_NULL,
                                                    std::move(copy));
  code = operation->begin(a.send_buffer, a.send_count, send_type, a.destination, a.send_tag,
                          a.receive_buffer, a.receive_count, receive_type, a.receive_tag);
  request->operation = std::move(operation);
  if (code != MPI_SUCCESS) {
    request.reset();
    return raise(comm, code, function);
  }
  *out = request->handle;
  add_operation(request.release());
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

#define WEFT_EACH_FORM(Count, suffix)                                                              \
  MPI_FUNCTION(Isendrecv##suffix)                                                                  \
  (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,             \
   void* recvbuf, Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,  \
   MPI_Request* request) {                                                                         \
    return isendrecv({sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,   \
                      source, recvtag},                                                            \
                     false, comm, request, __func__);                                              \
  }                                                                                                \
  MPI_FUNCTION(Isendrecv_replace##suffix)                                                          \
  (void* buf, Count count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,  \
   MPI_Comm comm, MPI_Request* request) {                                                          \
    return isendrecv({buf, count, datatype, dest, sendtag, buf, count, datatype, source, recvtag}, \
                     true, comm, request, __func__);                                               \
  }

WEFT_EACH_FORM(int, )
WEFT_EACH_FORM(MPI_Count, _c)
#undef WEFT_EACH_FORM
