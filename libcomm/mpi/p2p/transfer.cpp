#include "mpi/p2p/transfer.hpp"

#include <fmt/core.h>

#include <string>

namespace weft::mpi {

namespace {

// Finds the bytes of a message; null `packer`: they are one block at `data`. MPI_SUCCESS or the
// error class.
int find_bytes(void* buffer, MPI_Count count, const Datatype& type, Elements& elements,
               tagged::Request& request, void*& data, std::size_t& bytes) {
  if (!bytes_of(count, type, bytes)) return MPI_ERR_COUNT;
  if (!type.is_contiguous()) {
    elements = Elements(buffer, type);
    request.packer = &elements;
    data = nullptr;
    return MPI_SUCCESS;
  }
  request.packer = nullptr;
  data = first_byte(buffer, type);
  return data == nullptr && bytes != 0 ? MPI_ERR_BUFFER : MPI_SUCCESS;
}

// Does the same for a blocking transfer, which keeps the type.
int find_bytes(BlockingTransfer& transfer, void* buffer, MPI_Count count, Datatype* type,
               void*& data, std::size_t& bytes) {
  const int code =
      find_bytes(buffer, count, *type, transfer.elements, transfer.request, data, bytes);
  if (transfer.request.packer != nullptr) {
    retain(type);
    transfer.type = type;
  }
  return code;
}

void send_bytes(tagged::Request& request, const Comm& comm, int destination, int tag,
                const void* data, std::size_t bytes, bool synchronous) {
  const int peer = comm.world(destination);
  const std::uint32_t context = comm.context_for(destination, tag);
  if (!synchronous && request.packer == nullptr &&
      engine->try_send(peer, context, tag, data, bytes)) {
    request.code = Code::ok;
    request.complete.store(true, std::memory_order_relaxed);
  } else {
    engine->isend(request, peer, context, tag, data, bytes, synchronous);
    note_start();
  }
}

}  // namespace

int raise_wrong(Comm* comm, int code, MPI_Count count, int peer, int tag, const char* function) {
  std::string text;
  const Hints hints = comm->channels.hints();
  if (code == MPI_ERR_COUNT) text = fmt::format("{}", count);
  if (code == MPI_ERR_TAG && tag == MPI_ANY_TAG && hints.no_any_tag)
    text = "MPI_ANY_TAG on a communicator with the info mpi_assert_no_any_tag=true";
  else if (code == MPI_ERR_TAG)
    text = fmt::format("{} is not in 0 to {}", tag, kTagUb);
  if (code == MPI_ERR_RANK && peer == MPI_ANY_SOURCE && hints.no_any_source)
    text = "MPI_ANY_SOURCE on a communicator with the info mpi_assert_no_any_source=true";
  else if (code == MPI_ERR_RANK || code == MPI_ERR_ROOT)
    text = fmt::format("{} is not in 0 to {}", peer, comm->num_peers - 1);
  return raise(comm, code, function, text);
}

int begin_send(BlockingTransfer& transfer, Comm& comm, const void* buffer, MPI_Count count,
               Datatype* type, int destination, int tag, bool synchronous) {
  void* data;
  std::size_t bytes;
  const int code = find_bytes(transfer, const_cast<void*>(buffer), count, type, data, bytes);
  if (code != MPI_SUCCESS) return code;
  send_bytes(transfer.request, comm, destination, tag, data, bytes, synchronous);
  return MPI_SUCCESS;
}

int begin_receive(BlockingTransfer& transfer, Comm& comm, void* buffer, MPI_Count count,
                  Datatype* type, int source, int tag) {
  void* data;
  std::size_t bytes;
  const int code = find_bytes(transfer, buffer, count, type, data, bytes);
  if (code != MPI_SUCCESS) return code;
  engine->irecv(transfer.request, engine_source(comm, source), comm.context_for(source, tag),
                engine_tag(tag), data, bytes);
  return MPI_SUCCESS;
}

int start_send(RequestObject* request) {
  tagged::Request& base = request->base;
  base.complete.store(false, std::memory_order_relaxed);
  base.code = Code::ok;
  request->active = true;
  Datatype& type = *request->type;
  if (request->peer == MPI_PROC_NULL) {
    base.complete.store(true, std::memory_order_relaxed);
    return MPI_SUCCESS;
  }
  if (request->mode == SendMode::buffered) {
    const int code = send_buffered(*request->comm, request->buffer, request->count, &type,
                                   request->peer, request->tag);
    if (code == MPI_SUCCESS) base.complete.store(true, std::memory_order_relaxed);
    return code;
  }
  void* data;
  std::size_t bytes;
  const int code =
      find_bytes(request->buffer, request->count, type, request->elements, base, data, bytes);
  if (code != MPI_SUCCESS) return code;
  send_bytes(base, *request->comm, request->peer, request->tag, data, bytes,
             request->mode == SendMode::synchronous);
  return MPI_SUCCESS;
}

// Provides the memory that a receive of this request writes to.
int prepare_receive(RequestObject* request, void*& data, std::size_t& bytes) {
  tagged::Request& base = request->base;
  base.complete.store(false, std::memory_order_relaxed);
  base.code = Code::ok;
  request->active = true;
  return find_bytes(request->buffer, request->count, *request->type, request->elements, base, data,
                    bytes);
}

int start_receive(RequestObject* request) {
  if (request->peer == MPI_PROC_NULL) {
    request->active = true;
    request->base.complete.store(true, std::memory_order_relaxed);
    return MPI_SUCCESS;
  }
  void* data;
  std::size_t bytes;
  const int code = prepare_receive(request, data, bytes);
  if (code != MPI_SUCCESS) return code;
  const Comm& comm = *request->comm;
  engine->irecv(request->base, engine_source(comm, request->peer),
                comm.context_for(request->peer, request->tag), engine_tag(request->tag), data,
                bytes);
  note_start();
  return MPI_SUCCESS;
}

}  // namespace weft::mpi
