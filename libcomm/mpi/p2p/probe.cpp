// Probes, and the messages that matched probes take out of matching.
#include <memory>

#include "base/shortage.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

// A message that a matched probe has taken out of matching and no receive has taken yet.
struct MessageObject {
  tagged::Unexpected* message;
  Comm* comm;  // counted
  tagged::MessageInfo info;
};
Immortal<HandleTable<MPI_Message, MessageObject, Kind::message>> messages;

int check_probe(Comm* comm, int source, int tag, const char* function) {
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (!is_receive_tag(*comm, tag)) return raise_wrong(comm, MPI_ERR_TAG, 0, source, tag, function);
  if (!is_peer(*comm, source) && check_no_peer(*comm, source, true) != MPI_SUCCESS)
    return raise_wrong(comm, MPI_ERR_RANK, 0, source, tag, function);
  return MPI_SUCCESS;
}

void fill_from(const Comm& comm, const tagged::MessageInfo& info, MPI_Status* status) {
  fill_status(status, comm.rank_of_world(info.source), info.tag,
              static_cast<std::int64_t>(info.bytes));
}

// Calls `probe` until its result is something else than "none yet".
template <class Probe>
Code wait_for_message(const Comm& comm, int source, int tag, Probe&& probe) {
  Code code = Code::again;
  const WaitsFor what{.comm = &comm, .source = source, .tag = tag};
  wait_progressing([&code, &probe] { return (code = probe()) != Code::again; },
                   comm.context_for(source, tag), &what);
  return code;
}

// Takes the next such message out of matching, if there is one: ok, again or peer_lost. Its object
// is made first, as the message could not be put back.
Code take(Comm* comm, int source, int tag, MPI_Message* out, MPI_Status* status) {
  tagged::MessageInfo info;
  const int from = engine_source(*comm, source);
  const std::uint32_t context = comm->context_for(source, tag);
  Code code = engine->iprobe(from, context, engine_tag(tag), info);
  if (code != Code::ok) return code;
  std::unique_ptr<MessageObject> object(new MessageObject{nullptr, comm, info});
  const MPI_Message handle = messages->insert(object.get());
  if (handle == nullptr) return Code::no_memory;
  code = engine->improbe(from, context, engine_tag(tag), object->info, object->message);
  if (code != Code::ok) {
    // Another thread took the message.
    messages->erase(handle);
    return code;
  }
  fill_from(*comm, object->info, status);
  retain(comm);
  static_cast<void>(object.release());
  *out = handle;
  return Code::ok;
}

// Closes a message's handle and starts receiving it.
int begin_matched(MPI_Message* handle, void* buffer, MPI_Count count, MPI_Datatype datatype,
                  RequestObject*& request, const char* function) {
  if (handle == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "message is null");
  MessageObject* object = messages->find(*handle);
  if (object == nullptr) return raise(nullptr, MPI_ERR_REQUEST, function, "no such message");
  Comm* comm = object->comm;
  Datatype* type;
  int code = check_elements(count, datatype, type);
  if (code != MPI_SUCCESS) return raise(comm, code, function);
  request = new_request(comm, RequestObject::Kind::receive);
  if (request == nullptr) return raise(comm, MPI_ERR_NO_MEM, function);
  request->buffer = buffer;
  request->count = count;
  request->type = type;
  retain(type);
  request->peer = comm->rank_of_world(object->info.source);
  request->tag = object->info.tag;
  void* data;
  std::size_t bytes;
  code = prepare_receive(request, data, bytes);
  if (code != MPI_SUCCESS) {
    free_request(request);
    return raise(comm, code, function);
  }
  if (!engine->irecv_matched(request->base, object->message, data, bytes)) {
    free_request(request);
    return raise(comm, MPI_ERR_NO_MEM, function);
  }
  note_start();
  messages->erase(*handle);
  *handle = MPI_MESSAGE_NULL;
  release(comm);
  delete object;
  return MPI_SUCCESS;
}

int mrecv(void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
          MPI_Status* status, const char* function) {
  if (message != nullptr && *message == MPI_MESSAGE_NO_PROC) {
    MPI_MUST_RUN_IN(function);
    *message = MPI_MESSAGE_NULL;
    fill_proc_null(status);
    return MPI_SUCCESS;
  }
  RequestObject* request = nullptr;
  int code = begin_matched(message, buffer, count, datatype, request, function);
  if (code != MPI_SUCCESS) return code;
  wait_progressing(request->base);
  Comm* comm = request->comm;
  retain(comm);
  const Status ended = request->base.code == Code::ok
                           ? Status()
                           : Status(request->base.code, engine->describe(request->base));
  MPI_Request handle = request->handle;
  code = finish_request(request, &handle, status);
  if (code != MPI_SUCCESS) code = raise_status(comm, ended, function);
  release(comm);
  return code;
}

int imrecv(void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
           MPI_Request* out, const char* function) {
  if (out == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "request is null");
  if (message != nullptr && *message == MPI_MESSAGE_NO_PROC) {
    MPI_MUST_RUN_IN(function);
    *message = MPI_MESSAGE_NULL;
    *out = done_none_handle;
    return MPI_SUCCESS;
  }
  RequestObject* request = nullptr;
  const int code = begin_matched(message, buffer, count, datatype, request, function);
  if (code == MPI_SUCCESS) *out = request->handle;
  return code;
}

}  // namespace

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Iprobe)(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  Comm* object = find_comm(comm);
  const int code = check_probe(object, source, tag, __func__);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  if (flag == nullptr) return raise(object, MPI_ERR_ARG, __func__, "flag is null");
  if (source == MPI_PROC_NULL) {
    *flag = 1;
    fill_proc_null(status);
    return MPI_SUCCESS;
  }
  if (num_operations.load(std::memory_order_relaxed) != 0) progress_operations(false);
  tagged::MessageInfo info;
  const Code found = engine->iprobe(engine_source(*object, source),
                                    object->context_for(source, tag), engine_tag(tag), info);
  *flag = found == Code::ok;
  if (found == Code::ok) fill_from(*object, info, status);
  if (found == Code::again) engine->idle();
  if (found == Code::ok || found == Code::again) return MPI_SUCCESS;
  return raise_status(object, found, __func__);
}

MPI_FUNCTION(Probe)(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  Comm* object = find_comm(comm);
  const int code = check_probe(object, source, tag, __func__);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  if (source == MPI_PROC_NULL) {
    fill_proc_null(status);
    return MPI_SUCCESS;
  }
  const int from = engine_source(*object, source);
  const std::uint32_t context = object->context_for(source, tag);
  tagged::MessageInfo info;
  const Code found = wait_for_message(*object, source, tag, [from, context, tag, &info] {
    return engine->iprobe(from, context, engine_tag(tag), info);
  });
  if (found != Code::ok) return raise_status(object, found, __func__);
  fill_from(*object, info, status);
  return MPI_SUCCESS;
}

MPI_FUNCTION(Improbe)
(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  Comm* object = find_comm(comm);
  const int code = check_probe(object, source, tag, __func__);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  if (flag == nullptr || message == nullptr)
    return raise(object, MPI_ERR_ARG, __func__, "flag or message is null");
  if (source == MPI_PROC_NULL) {
    *flag = 1;
    *message = MPI_MESSAGE_NO_PROC;
    fill_proc_null(status);
    return MPI_SUCCESS;
  }
  if (num_operations.load(std::memory_order_relaxed) != 0) progress_operations(false);
  *flag = 0;
  const Code found = take(object, source, tag, message, status);
  *flag = found == Code::ok;
  if (found == Code::again) engine->idle();
  return found == Code::ok || found == Code::again ? MPI_SUCCESS
                                                   : raise_status(object, found, __func__);
}

MPI_FUNCTION(Mprobe)(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  Comm* object = find_comm(comm);
  const int code = check_probe(object, source, tag, __func__);
  if (code != MPI_SUCCESS) [[unlikely]]
    return code;
  if (message == nullptr) return raise(object, MPI_ERR_ARG, __func__, "message is null");
  if (source == MPI_PROC_NULL) {
    *message = MPI_MESSAGE_NO_PROC;
    fill_proc_null(status);
    return MPI_SUCCESS;
  }
  const Code found = wait_for_message(*object, source, tag, [object, source, tag, message, status] {
    return or_no_memory([&] { return take(object, source, tag, message, status); });
  });
  return found == Code::ok ? MPI_SUCCESS : raise_status(object, found, __func__);
}

MPI_FUNCTION(Mrecv)
(void* buf, int count, MPI_Datatype datatype, MPI_Message* message, MPI_Status* status) {
  return mrecv(buf, count, datatype, message, status, __func__);
}
MPI_FUNCTION(Mrecv_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message, MPI_Status* status) {
  return mrecv(buf, count, datatype, message, status, __func__);
}
MPI_FUNCTION(Imrecv)
(void* buf, int count, MPI_Datatype datatype, MPI_Message* message, MPI_Request* request) {
  return imrecv(buf, count, datatype, message, request, __func__);
}
MPI_FUNCTION(Imrecv_c)
(void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message, MPI_Request* request) {
  return imrecv(buf, count, datatype, message, request, __func__);
}

MPI_CONVERSIONS(Message, MPI_Message, messages)
