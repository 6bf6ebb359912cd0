#pragma once
// RequestObject: what an MPI_Request names. Taken from a free list, so that a warm program starts
// and completes requests without allocating.
#include <atomic>
#include <cstdint>
#include <memory>

#include "mpi/comm/comm.hpp"
#include "mpi/core/handle_table.hpp"
#include "mpi/core/progress_thread.hpp"
#include "mpi/core/state.hpp"
#include "mpi/core/status.hpp"
#include "mpi/datatype/datatype.hpp"
#include "tagged/request.hpp"

namespace weft::mpi {

// The elements that a message is made of, where they do not lie in one block.
class Elements final : public tagged::Packer {
 public:
  Elements() = default;
  Elements(void* buffer, const Datatype& type) noexcept : buffer_(buffer), type_(&type) {}
  void pack(std::byte* to, std::size_t skip, std::size_t bytes) const noexcept override {
    type_->pack_part(to, buffer_, skip, bytes);
  }
  void unpack(const std::byte* from, std::size_t skip, std::size_t bytes) const noexcept override {
    type_->unpack_part(buffer_, from, skip, bytes);
  }

 private:
  void* buffer_ = nullptr;
  const Datatype* type_ = nullptr;  // whoever has this keeps it
};

// Work in the background that is more than one message (a nonblocking collective, a program's own
// request). `advance` and `start` are called by one thread at a time.
class Operation {
 public:
  virtual ~Operation() = default;
  // Begins (again, if persistent).
  virtual Code start() = 0;
  // The class of error for which `start` refused, where its code says less; else MPI_SUCCESS.
  virtual int refusal() const noexcept { return MPI_SUCCESS; }
  // Does what can be done now. True: finished, with `code`.
  virtual bool advance(Code& code) = 0;
  // The thread that has just advanced it in vain sleeps next, until the process's doorbell rings.
  virtual void before_sleep() noexcept {}
  // The class of error of the finished operation.
  virtual int failure(Code code) const noexcept { return error_class(code); }
  // What the status of the finished operation says; nothing, for most.
  virtual void describe(MPI_Status* status) const {
    fill_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  }
};

enum class SendMode : std::uint8_t { standard, synchronous, buffered, ready };

struct RequestObject;
using RequestTable = HandleTable<MPI_Request, RequestObject, Kind::request>;

struct RequestObject {
  tagged::Request base;  // `complete` and `code` serve every kind of request
  enum class Kind : std::uint8_t { done_send, done_none, send, receive, operation, generalized };
  Kind kind = Kind::send;
  bool persistent = false;
  bool active = true;  // false: persistent and not started
  SendMode mode = SendMode::standard;
  Comm* comm = nullptr;  // counted
  MPI_Request handle = MPI_REQUEST_NULL;
  RequestTable::SlotRef slot_ref;
  RequestObject* next = nullptr;          // of those that are free, or detached
  RequestObject* next_running = nullptr;  // of the operations under way

  // The program's data.
  void* buffer = nullptr;
  MPI_Count count = 0;
  Datatype* type = nullptr;  // counted while not null
  Elements elements;         // of types that are not contiguous
  int peer = 0;              // rank, for starting a persistent request
  int tag = 0;

  std::unique_ptr<Operation> operation;

  struct Generalized {
    MPI_Grequest_query_function* query = nullptr;
    MPI_Grequest_free_function* free = nullptr;
    MPI_Grequest_cancel_function* cancel = nullptr;
    void* extra_state = nullptr;
    // Set by whichever comes first, MPI_Grequest_complete or MPI_Request_free; the second of them
    // ends the request.
    std::atomic<bool> is_half_over{false};
  } generalized;

  bool is_complete() const noexcept { return base.is_complete(); }
};

extern Immortal<RequestTable> requests;

inline RequestObject* find_request(MPI_Request handle) noexcept { return requests->find(handle); }

// A request with a handle; null if memory is out. The caller fills in and starts it.
RequestObject* new_request(Comm* comm, RequestObject::Kind kind);
// Until the program has it: ends with free_request.
struct FreeRequest {
  void operator()(RequestObject* request) const noexcept;
};
using RequestPtr = std::unique_ptr<RequestObject, FreeRequest>;
// Ends the handle and puts the object back. It must be complete or never started.
void free_request(RequestObject* request);
// Ends the handle of a message or operation that may still be under way; reclaimed once it is
// complete.
void detach_request(RequestObject* request);

// Handles that many requests share: of a send that was complete when it was started, and of an
// operation with MPI_PROC_NULL.
inline MPI_Request done_send_handle = MPI_REQUEST_NULL;
inline MPI_Request done_none_handle = MPI_REQUEST_NULL;
void create_shared_requests();
void destroy_requests();

// Operations under way, moved forward by every call that waits or tests.
inline std::atomic<int> num_operations{0};
void add_operation(RequestObject* request) noexcept;
// before_sleep: nobody who waits for them looks again soon.
void progress_operations(bool before_sleep);

// Blocks until done() is true and moves everything forward meanwhile. context: as
// Engine::wait_until().
template <class Done>
void wait_progressing(Done&& done, std::uint32_t context = tagged::kAnyContext) {
  engine->wait_until(done, context);  // runs progress_operations too while there are any
}

inline Code wait_progressing(tagged::Request& request) {
  if (!request.is_complete())
    wait_progressing([&request] { return request.is_complete(); }, request.context);
  return request.code;
}
// Where a message's request completes. Other operations do by whoever sees to it.
inline std::uint32_t context_of(const RequestObject& request) noexcept {
  const bool is_message =
      request.kind == RequestObject::Kind::send || request.kind == RequestObject::Kind::receive;
  return is_message && request.comm != nullptr ? request.comm->context : tagged::kAnyContext;
}

// One step for calls that test.
inline void progress_once(std::uint32_t context = tagged::kAnyContext) {
  engine->progress(context);
  if (num_operations.load(std::memory_order_relaxed) != 0) progress_operations(false);
}

// Fills the status of a complete request (not MPI_ERROR). Returns its error class.
int read_result(RequestObject* request, MPI_Status* status);
// read_result, then the request is freed, or inactive if persistent; *handle follows.
int finish_request(RequestObject* request, MPI_Request* handle, MPI_Status* status);

// Starts a send or receive that the arguments have been checked for. `request->buffer`, `count`,
// `type`, `peer`, `tag`, `mode` are set. Returns MPI_SUCCESS or an error class.
int start_send(RequestObject* request);
int start_receive(RequestObject* request);
// The first half of start_receive: the memory to receive into. Used alone for matched messages.
int prepare_receive(RequestObject* request, void*& data, std::size_t& bytes);

}  // namespace weft::mpi
