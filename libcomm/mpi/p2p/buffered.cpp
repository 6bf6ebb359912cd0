// Buffered sends and the buffers that programs attach for them.
//
// The data are copied to memory of the library; an attached buffer only limits how much may be
// under way: each message takes its packed size and MPI_BSEND_OVERHEAD of it until it has left. A
// buffer belongs to a communicator; or to a session, for its communicators that have none; or to
// the process, for all others.
#include <cstdlib>
#include <list>
#include <mutex>
#include <unordered_map>

#include "base/shortage.hpp"
#include "mpi/p2p/transfer.hpp"

namespace weft::mpi {
namespace {

struct BufferedMessage {
  tagged::Request request;
  void* data = nullptr;
  MPI_Count room = 0;
};

struct AttachedBuffer {
  void* address = nullptr;
  MPI_Count size = 0;
  MPI_Count used = 0;
  bool automatic = false;  // grows as needed
  std::list<BufferedMessage> pending;
};

struct Buffers {
  std::mutex mutex;  // not held while an error is raised: its handler may call anything here
  std::unordered_map<const void*, AttachedBuffer> by_owner;  // null: the process's buffer
};
Immortal<Buffers> buffers;

void drop_complete(AttachedBuffer& buffer) {
  for (auto message = buffer.pending.begin(); message != buffer.pending.end();) {
    if (!message->request.is_complete()) {
      ++message;
      continue;
    }
    std::free(message->data);
    buffer.used -= message->room;
    message = buffer.pending.erase(message);
  }
}

}  // namespace

bool is_drained(const void* owner) {
  std::lock_guard lock(buffers->mutex);
  const auto found = buffers->by_owner.find(owner);
  if (found == buffers->by_owner.end()) return true;
  drop_complete(found->second);
  return found->second.pending.empty();
}

namespace {

class Flush final : public Operation {
 public:
  explicit Flush(const void* owner) : owner_(owner) {}
  Code start() override { return Code::ok; }
  bool advance(Code&) override { return is_drained(owner_); }

 private:
  const void* owner_;
};

}  // namespace

namespace {

using Owned = std::unordered_map<const void*, AttachedBuffer>::node_type;

// Removes a buffer once it is drained. Empty: there is none. Under one lock, as another thread may
// send meanwhile.
Owned take_drained(const void* owner) {
  Owned taken;
  bool is_over = false;
  {
    std::lock_guard lock(buffers->mutex);
    if (buffers->by_owner.count(owner) == 0) return taken;
  }
  wait_progressing([&] {
    std::lock_guard lock(buffers->mutex);
    const auto found = buffers->by_owner.find(owner);
    if (is_over || found == buffers->by_owner.end()) return true;
    drop_complete(found->second);
    if (!found->second.pending.empty()) return false;
    taken = buffers->by_owner.extract(found);
    return is_over = true;
  });
  return taken;
}

}  // namespace

int attach_buffer(const void* owner, void* address, MPI_Count size) {
  if (size < 0) return MPI_ERR_ARG;
  std::lock_guard lock(buffers->mutex);
  const auto [place, is_new] = buffers->by_owner.try_emplace(owner);
  if (!is_new) return MPI_ERR_BUFFER;
  AttachedBuffer& buffer = place->second;
  buffer.address = address;
  buffer.automatic = address == MPI_BUFFER_AUTOMATIC;
  buffer.size = size;
  return MPI_SUCCESS;
}

int detach_buffer(const void* owner, void* address_out, MPI_Count& size) {
  if (address_out == nullptr) return MPI_ERR_ARG;
  Owned node = take_drained(owner);
  if (node.empty()) return MPI_ERR_BUFFER;
  *static_cast<void**>(address_out) = node.mapped().address;
  size = node.mapped().size;
  return MPI_SUCCESS;
}

int flush_in_background(Comm* site, const void* owner, MPI_Request* out) {
  if (out == nullptr) return MPI_ERR_ARG;
  RequestPtr request(new_request(site, RequestObject::Kind::operation));
  if (request == nullptr) return MPI_ERR_NO_MEM;
  request->operation = std::make_unique<Flush>(owner);
  *out = request->handle;
  add_operation(request.release());
  return MPI_SUCCESS;
}

namespace {

int attach(Comm* site, Comm* comm, void* address, MPI_Count size, const char* function) {
  const int code = attach_buffer(comm, address, size);
  return code == MPI_SUCCESS ? code : raise(site, code, function, attach_problem(code));
}
int detach(Comm* site, Comm* comm, void* address_out, MPI_Count& size, const char* function) {
  const int code = detach_buffer(comm, address_out, size);
  return code == MPI_SUCCESS ? code : raise(site, code, function, detach_problem(code));
}
int iflush(Comm* site, const Comm* comm, MPI_Request* out, const char* function) {
  const int code = flush_in_background(site, comm, out);
  return code == MPI_SUCCESS ? code : raise(site, code, function);
}

// The MPI-4.1 functions that name a communicator.
template <class Size>
int comm_detach(MPI_Comm handle, void* address_out, Size* size, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  if (size == nullptr) return raise(comm, MPI_ERR_ARG, function, "size is null");
  MPI_Count wide = 0;
  const int code = detach(comm, comm, address_out, wide, function);
  if (code == MPI_SUCCESS) *size = static_cast<Size>(wide);
  return code;
}

int comm_attach(MPI_Comm handle, void* address, MPI_Count size, const char* function) {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) return raise(nullptr, MPI_ERR_COMM, function);
  return attach(comm, comm, address, size, function);
}

template <class Size>
int process_detach(void* address_out, Size* size, const char* function) {
  MPI_MUST_RUN_IN(function);
  if (size == nullptr) return raise(nullptr, MPI_ERR_ARG, function, "size is null");
  MPI_Count wide = 0;
  const int code = detach(nullptr, nullptr, address_out, wide, function);
  if (code == MPI_SUCCESS) *size = static_cast<Size>(wide);
  return code;
}

}  // namespace

int send_buffered(Comm& comm, const void* data, MPI_Count count, Datatype* type, int destination,
                  int tag) {
  if (destination == MPI_PROC_NULL) return MPI_SUCCESS;
  std::size_t bytes;
  if (!bytes_of(count, *type, bytes)) return MPI_ERR_COUNT;
  if (type->is_contiguous() && first_byte(data, *type) == nullptr && bytes != 0)
    return MPI_ERR_BUFFER;
  const auto room = static_cast<MPI_Count>(bytes) + MPI_BSEND_OVERHEAD;
  BufferedMessage* message = nullptr;
  {
    std::lock_guard lock(buffers->mutex);
    auto found = buffers->by_owner.find(&comm);
    if (found == buffers->by_owner.end() && comm.session != nullptr)
      found = buffers->by_owner.find(comm.session);
    if (found == buffers->by_owner.end()) found = buffers->by_owner.find(nullptr);
    if (found == buffers->by_owner.end()) return MPI_ERR_BUFFER;
    AttachedBuffer& buffer = found->second;
    if (!buffer.automatic && buffer.used + room > buffer.size) {
      engine->progress();
      drop_complete(buffer);
      if (buffer.used + room > buffer.size) return MPI_ERR_BUFFER;
    }
    void* copy = std::malloc(bytes == 0 ? 1 : bytes);
    if (copy == nullptr) return MPI_ERR_NO_MEM;
    type->pack(copy, data, count);
    const int peer = comm.world(destination);
    const std::uint32_t context = comm.context_for(destination, tag);
    if (engine->try_send(peer, context, tag, copy, bytes)) {
      std::free(copy);
      return MPI_SUCCESS;
    }
    const Code kept = or_no_memory([&] { message = &buffer.pending.emplace_back(); });
    if (kept != Code::ok) {
      std::free(copy);
      return MPI_ERR_NO_MEM;
    }
    message->data = copy;
    message->room = room;
    buffer.used += room;
    // Start with the lock held: a thread that detaches the buffer must find the message started.
    engine->isend(message->request, peer, context, tag, copy, bytes);
  }
  note_start();
  return MPI_SUCCESS;
}

void wait_for_buffers() {
  wait_progressing([] {
    std::lock_guard lock(buffers->mutex);
    for (auto& [owner, buffer] : buffers->by_owner) {
      drop_complete(buffer);
      if (!buffer.pending.empty()) return false;
    }
    return true;
  });
}

void drop_buffer(const void* owner) { static_cast<void>(take_drained(owner)); }

}  // namespace weft::mpi

using namespace weft;       // NOLINT: the bodies below are the C interface
using namespace weft::mpi;  // NOLINT

MPI_FUNCTION(Buffer_attach)(void* buffer, int size) {
  MPI_MUST_RUN();
  return attach(nullptr, nullptr, buffer, size, __func__);
}
MPI_FUNCTION(Buffer_attach_c)(void* buffer, MPI_Count size) {
  MPI_MUST_RUN();
  return attach(nullptr, nullptr, buffer, size, __func__);
}
MPI_FUNCTION(Buffer_detach)(void* buffer_addr, int* size) {
  return process_detach(buffer_addr, size, __func__);
}
MPI_FUNCTION(Buffer_detach_c)(void* buffer_addr, MPI_Count* size) {
  return process_detach(buffer_addr, size, __func__);
}
MPI_FUNCTION(Buffer_flush)(void) {
  MPI_MUST_RUN();
  wait_progressing([] { return is_drained(nullptr); });
  return MPI_SUCCESS;
}
MPI_FUNCTION(Buffer_iflush)(MPI_Request* request) {
  MPI_MUST_RUN();
  return iflush(nullptr, nullptr, request, __func__);
}
MPI_FUNCTION(Comm_attach_buffer)(MPI_Comm comm, void* buffer, int size) {
  return comm_attach(comm, buffer, size, __func__);
}
MPI_FUNCTION(Comm_attach_buffer_c)(MPI_Comm comm, void* buffer, MPI_Count size) {
  return comm_attach(comm, buffer, size, __func__);
}
MPI_FUNCTION(Comm_detach_buffer)(MPI_Comm comm, void* buffer_addr, int* size) {
  return comm_detach(comm, buffer_addr, size, __func__);
}
MPI_FUNCTION(Comm_detach_buffer_c)(MPI_Comm comm, void* buffer_addr, MPI_Count* size) {
  return comm_detach(comm, buffer_addr, size, __func__);
}
MPI_FUNCTION(Comm_flush_buffer)(MPI_Comm comm) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  wait_progressing([object] { return is_drained(object); });
  return MPI_SUCCESS;
}
MPI_FUNCTION(Comm_iflush_buffer)(MPI_Comm comm, MPI_Request* request) {
  Comm* object = find_comm(comm);
  if (object == nullptr) return raise(nullptr, MPI_ERR_COMM, __func__);
  return iflush(object, object, request, __func__);
}
