#pragma once
// The checks and translations that sends and receives share. All inline: this is the hot path.
#include <cstddef>

#include "mpi/comm/comm.hpp"
#include "mpi/core/request.hpp"
#include "mpi/datatype/datatype.hpp"

namespace weft::mpi {

// Finds and checks the type of a buffer, and its count. Returns MPI_SUCCESS or the error class.
inline int check_elements(MPI_Count count, MPI_Datatype handle, Datatype*& type) noexcept {
  if (count < 0) [[unlikely]]
    return MPI_ERR_COUNT;
  type = find_datatype(handle);
  if (type == nullptr || !type->committed()) [[unlikely]]
    return MPI_ERR_TYPE;
  return MPI_SUCCESS;
}

// True for a rank to send to; the caller handles MPI_PROC_NULL.
inline bool is_peer(const Comm& comm, int rank) noexcept {
  return static_cast<unsigned>(rank) <
         static_cast<unsigned>(comm.num_peers.load(std::memory_order_relaxed));
}
inline bool is_send_tag(int tag) noexcept { return static_cast<unsigned>(tag) <= kTagUb; }
inline bool is_receive_tag(const Comm& comm, int tag) noexcept {
  return is_send_tag(tag) || (tag == MPI_ANY_TAG && !comm.channels.hints().no_any_tag);
}

inline int engine_source(const Comm& comm, int source) noexcept {
  return source == MPI_ANY_SOURCE ? tagged::kAnySource : comm.world(source);
}
inline std::int32_t engine_tag(int tag) noexcept {
  return tag == MPI_ANY_TAG ? tagged::kAnyTag : tag;
}

// The address of the first byte of contiguous data.
template <class Pointer>
inline Pointer first_byte(Pointer buffer, const Datatype& type) noexcept {
  using Byte =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const char, char>;
  return static_cast<Byte*>(buffer) + type.true_lb();
}

// Accepts MPI_DATATYPE_NULL where there is no peer to send to: programs pass it then.
[[gnu::cold, gnu::noinline]] inline int check_nothing(int code, MPI_Count count,
                                                      MPI_Datatype handle, int peer,
                                                      Datatype*& type) noexcept {
  if (code != MPI_ERR_TYPE || count != 0 || handle != MPI_DATATYPE_NULL || peer != MPI_PROC_NULL)
    return code;
  type = find_datatype(MPI_BYTE);
  return MPI_SUCCESS;
}

// For a rank that is_peer() refuses: what else a call may name. A revoked communicator has no
// peers.
inline int check_no_peer(const Comm& comm, int rank, bool may_be_any) noexcept {
  const bool is_any = may_be_any && rank == MPI_ANY_SOURCE && !comm.channels.hints().no_any_source;
  const bool is_valid = rank == MPI_PROC_NULL || is_any;
  return is_valid && !is_revoked(comm) ? MPI_SUCCESS : MPI_ERR_RANK;
}

// Check a send's and a receive's arguments, in the order the standard lists them. MPI_SUCCESS or
// the error class; `type` is set on success.
inline int check_send(const Comm& comm, MPI_Count count, MPI_Datatype handle, int destination,
                      int tag, Datatype*& type) noexcept {
  if (int code = check_elements(count, handle, type); code != MPI_SUCCESS) [[unlikely]] {
    code = check_nothing(code, count, handle, destination, type);
    if (code != MPI_SUCCESS) return code;
  }
  if (!is_send_tag(tag)) [[unlikely]]
    return MPI_ERR_TAG;
  if (!is_peer(comm, destination)) [[unlikely]]
    return check_no_peer(comm, destination, false);
  return MPI_SUCCESS;
}
inline int check_receive(const Comm& comm, MPI_Count count, MPI_Datatype handle, int source,
                         int tag, Datatype*& type) noexcept {
  if (int code = check_elements(count, handle, type); code != MPI_SUCCESS) [[unlikely]] {
    code = check_nothing(code, count, handle, source, type);
    if (code != MPI_SUCCESS) return code;
  }
  if (!is_receive_tag(comm, tag)) [[unlikely]]
    return MPI_ERR_TAG;
  if (!is_peer(comm, source)) return check_no_peer(comm, source, true);
  return MPI_SUCCESS;
}

// Raises what they, or the checks of a collective, found, with the value that is wrong. peer: or
// the root.
[[nodiscard, gnu::cold]] int raise_wrong(Comm* comm, int code, MPI_Count count, int peer, int tag,
                                         const char* function);
// The same for a call that was to start a request (null: not even that was given). Programs wait
// for what they started before a communicator was revoked, and for what they could not.
[[nodiscard, gnu::cold, gnu::noinline]] inline int refuse(Comm* comm, int code, MPI_Count count,
                                                          int peer, int tag, MPI_Request* request,
                                                          const char* function) {
  if (request != nullptr) *request = MPI_REQUEST_NULL;
  return raise_wrong(comm, code, count, peer, tag, function);
}

// A blocking transfer on the stack, for MPI functions that are made of several. The arguments were
// checked, and the peer is not MPI_PROC_NULL. The caller must wait for the request of each that was
// started.
struct BlockingTransfer {
  BlockingTransfer() = default;
  ~BlockingTransfer() {
    if (type != nullptr) release(type);
  }
  BlockingTransfer(const BlockingTransfer&) = delete;
  BlockingTransfer& operator=(const BlockingTransfer&) = delete;

  tagged::Request request;
  Elements elements;
  Datatype* type = nullptr;  // of the elements, which another thread may free
};
// Start one. Each returns MPI_SUCCESS or an error class.
int begin_send(BlockingTransfer& transfer, Comm& comm, const void* buffer, MPI_Count count,
               Datatype* type, int destination, int tag, bool synchronous);
int begin_receive(BlockingTransfer& transfer, Comm& comm, void* buffer, MPI_Count count,
                  Datatype* type, int source, int tag);

// Sends buffered: copies, sends what it can and leaves the rest to the background. MPI_SUCCESS, or
// MPI_ERR_BUFFER if no attached buffer has the room.
int send_buffered(Comm& comm, const void* buffer, MPI_Count count, Datatype* type, int destination,
                  int tag);
// Waits until all buffered messages have left.
void wait_for_buffers();
// Buffers belong to a communicator, to a session, or to the process (null). MPI_SUCCESS or the
// error class; attach_problem() and detach_problem() explain the class.
int attach_buffer(const void* owner, void* address, MPI_Count size);
int detach_buffer(const void* owner, void* address_out, MPI_Count& size);
constexpr const char* attach_problem(int code) {
  return code == MPI_ERR_ARG ? "the size is negative" : "a buffer is attached already";
}
constexpr const char* detach_problem(int code) {
  return code == MPI_ERR_ARG ? "the address is null" : "no buffer is attached";
}
// True once everything that was under way in the owner's buffer has left.
bool is_drained(const void* owner);
// Makes a request that completes then; its errors go to `site`.
int flush_in_background(Comm* site, const void* owner, MPI_Request* out);
// Ends the buffer of an owner that is ending, if it has one.
void drop_buffer(const void* owner);

}  // namespace weft::mpi
