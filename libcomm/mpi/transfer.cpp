#include "mpi/transfer.hpp"

#include <cstdlib>
#include <utility>

namespace weft::mpi {

namespace {

// Packs non-contiguous data into fresh memory; null if there is none.
void* pack_staging(const void* buffer, MPI_Count count, const Datatype& type, std::size_t bytes) {
  void* staging = std::malloc(bytes == 0 ? 1 : bytes);
  if (staging != nullptr) type.pack(staging, buffer, count);
  return staging;
}

std::size_t arrived(const tagged::Request& request) {
  return request.received < request.length ? request.received : request.length;
}

bool has_data(const tagged::Request& request) {
  return request.code == Code::ok || request.code == Code::truncated;
}

// Runs under the engine's lock, just before the request is complete.
void unpack_staging(tagged::Request& base) {
  auto* request = static_cast<RequestObject*>(base.finish_argument);
  if (has_data(base))
    request->type->unpack(request->buffer, request->staging, request->count, arrived(base));
}

bool bytes_of(MPI_Count count, const Datatype& type, std::size_t& bytes) {
  return !__builtin_mul_overflow(static_cast<std::size_t>(count), type.size(), &bytes);
}

}  // namespace

int stage_send(BlockingTransfer& transfer, const void* buffer, MPI_Count count, Datatype* type) {
  std::size_t bytes;
  if (!bytes_of(count, *type, bytes)) return MPI_ERR_COUNT;
  if (!type->is_contiguous()) transfer.staging = pack_staging(buffer, count, *type, bytes);
  return type->is_contiguous() || transfer.staging != nullptr ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

int begin_send(BlockingTransfer& transfer, Comm& comm, const void* buffer, MPI_Count count,
               Datatype* type, int destination, int tag, bool synchronous) {
  std::size_t bytes;
  if (!bytes_of(count, *type, bytes)) return MPI_ERR_COUNT;
  const void* data;
  if (type->is_contiguous()) {
    data = first_byte(buffer, *type);
    if (data == nullptr && bytes != 0) return MPI_ERR_BUFFER;
  } else {
    if (transfer.staging == nullptr) transfer.staging = pack_staging(buffer, count, *type, bytes);
    data = transfer.staging;
    if (data == nullptr) return MPI_ERR_NO_MEM;
  }
  const int peer = comm.world(destination);
  if (!synchronous && engine->try_send(peer, comm.context, tag, data, bytes)) {
    transfer.request.code = Code::ok;
    transfer.request.complete.store(true, std::memory_order_relaxed);
  } else {
    engine->isend(transfer.request, peer, comm.context, tag, data, bytes, synchronous);
  }
  return MPI_SUCCESS;
}

int begin_receive(BlockingTransfer& transfer, Comm& comm, void* buffer, MPI_Count count,
                  Datatype* type, int source, int tag) {
  std::size_t bytes;
  if (!bytes_of(count, *type, bytes)) return MPI_ERR_COUNT;
  void* data;
  if (type->is_contiguous()) {
    data = first_byte(buffer, *type);
    if (data == nullptr && bytes != 0) return MPI_ERR_BUFFER;
  } else {
    data = transfer.staging = std::malloc(bytes == 0 ? 1 : bytes);
    if (data == nullptr) return MPI_ERR_NO_MEM;
    transfer.buffer = buffer;
    transfer.type = type;
    transfer.count = count;
  }
  engine->irecv(transfer.request, engine_source(comm, source), comm.context, engine_tag(tag), data,
                bytes);
  return MPI_SUCCESS;
}

Code end_blocking(BlockingTransfer& transfer) {
  const Code code = wait_progressing(transfer.request);
  if (transfer.staging != nullptr) {
    if (transfer.type != nullptr && has_data(transfer.request))
      transfer.type->unpack(transfer.buffer, transfer.staging, transfer.count,
                            arrived(transfer.request));
    std::free(std::exchange(transfer.staging, nullptr));
  }
  return code;
}

int start_send(RequestObject* request) {
  tagged::Request& base = request->base;
  base.complete.store(false, std::memory_order_relaxed);
  base.code = Code::ok;
  base.finish = nullptr;
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
  std::size_t bytes;
  if (!bytes_of(request->count, type, bytes)) return MPI_ERR_COUNT;
  const void* data;
  if (type.is_contiguous()) {
    data = first_byte(static_cast<const void*>(request->buffer), type);
    if (data == nullptr && bytes != 0) return MPI_ERR_BUFFER;
  } else {
    if (request->staging == nullptr) {
      request->staging = pack_staging(request->buffer, request->count, type, bytes);
      if (request->staging == nullptr) return MPI_ERR_NO_MEM;
    } else {
      type.pack(request->staging, request->buffer, request->count);
    }
    data = request->staging;
  }
  const bool synchronous = request->mode == SendMode::synchronous;
  const int peer = request->comm->world(request->peer);
  const std::uint32_t context = request->comm->context;
  if (!synchronous && engine->try_send(peer, context, request->tag, data, bytes))
    base.complete.store(true, std::memory_order_relaxed);
  else
    engine->isend(base, peer, context, request->tag, data, bytes, synchronous);
  return MPI_SUCCESS;
}

// The memory that a receive of this request writes to; sets up unpacking.
int prepare_receive(RequestObject* request, void*& data, std::size_t& bytes) {
  tagged::Request& base = request->base;
  base.complete.store(false, std::memory_order_relaxed);
  base.code = Code::ok;
  base.finish = nullptr;
  request->active = true;
  Datatype& type = *request->type;
  if (!bytes_of(request->count, type, bytes)) return MPI_ERR_COUNT;
  if (type.is_contiguous()) {
    data = first_byte(request->buffer, type);
    return data == nullptr && bytes != 0 ? MPI_ERR_BUFFER : MPI_SUCCESS;
  }
  if (request->staging == nullptr) request->staging = std::malloc(bytes == 0 ? 1 : bytes);
  if (request->staging == nullptr) return MPI_ERR_NO_MEM;
  base.finish = &unpack_staging;
  base.finish_argument = request;
  data = request->staging;
  return MPI_SUCCESS;
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
  engine->irecv(request->base, engine_source(comm, request->peer), comm.context,
                engine_tag(request->tag), data, bytes);
  return MPI_SUCCESS;
}

}  // namespace weft::mpi
