#pragma once
// RequestObject: what an MPI_Request names. Taken from a free list, so that a program in its steady
// state starts and completes requests without allocating.
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

// The elements of a message that do not lie in one block.
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
  const Datatype* type_ = nullptr;  // kept alive by the owner of this object
};

// An operation in the background that is more than one message (a nonblocking collective, a
// program's own request). `advance` and `start` are called by one thread at a time.
class Operation {
 public:
  virtual ~Operation() = default;
  // Begins the operation (again, if persistent).
  virtual Code start() = 0;
  // The error class for which `start` refused, where its code says less; else MPI_SUCCESS.
  virtual int refusal() const noexcept { return MPI_SUCCESS; }
  // Advances the operation as far as it goes now. True: finished, with `code`.
  virtual bool advance(Code& code) = 0;
  // Called when `advance` was in vain and its thread sleeps next, until the process's doorbell
  // rings.
  virtual void before_sleep() noexcept {}
  // The error class of the finished operation on this communicator.
  virtual int failure(Code code, const Comm* comm) const noexcept {
    return error_class(code, comm);
  }
  // Fills the status of the finished operation; most leave it empty.
  virtual void describe(MPI_Status* status) const {
    fill_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  }
};

enum class SendMode : std::uint8_t { standard, synchronous, buffered, ready };

struct RequestObject;
using RequestTable = HandleTable<MPI_Request, RequestObject, Kind::request>;

struct RequestObject {
  RequestObject() noexcept { base.stays_posted = true; }
  tagged::Request base;  // `complete` and `code` serve every kind of request
  enum class Kind : std::uint8_t { done_send, done_none, send, receive, operation, generalized };
  Kind kind = Kind::send;
  bool persistent = false;
  bool active = true;  // false: persistent and not started
  SendMode mode = SendMode::standard;
  Comm* comm = nullptr;  // counted
  MPI_Request handle = MPI_REQUEST_NULL;
  RequestTable::SlotRef slot_ref;
  RequestObject* next = nullptr;          // in the list of free, or of detached, requests
  RequestObject* next_running = nullptr;  // in the list of operations under way

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
    // Set by the first of MPI_Grequest_complete and MPI_Request_free; the second of them ends the
    // request.
    std::atomic<bool> is_half_over{false};
  } generalized;

  bool is_complete() const noexcept { return base.is_complete(); }
};

extern Immortal<RequestTable> requests;

inline RequestObject* find_request(MPI_Request handle) noexcept { return requests->find(handle); }

// Returns a request with a handle; null if memory is out. The caller fills it in and starts it.
RequestObject* new_request(Comm* comm, RequestObject::Kind kind);
// Frees a request that the program has not got yet.
struct FreeRequest {
  void operator()(RequestObject* request) const noexcept;
};
using RequestPtr = std::unique_ptr<RequestObject, FreeRequest>;
// Closes the handle and returns the object to the free list. It must be complete or never started.
void free_request(RequestObject* request);
// Closes the handle of a message or operation that may still be under way; the object is reclaimed
// once it is complete.
void detach_request(RequestObject* request);

// Handles that many requests share: of sends that were complete when they were started, and of
// operations with MPI_PROC_NULL.
inline MPI_Request done_send_handle = MPI_REQUEST_NULL;
inline MPI_Request done_none_handle = MPI_REQUEST_NULL;
void create_shared_requests();
void destroy_requests();

// The number of operations under way, which every call that waits or tests advances.
inline std::atomic<int> num_operations{0};
void add_operation(RequestObject* request) noexcept;
// before_sleep: no thread that waits for them checks again soon.
void progress_operations(bool before_sleep);

// What a wait waits for, for others to see (blocked.hpp): a message, the requests of an array, or a
// message to probe.
struct WaitsFor {
  const tagged::Request* message = nullptr;
  const MPI_Request* handles = nullptr;
  int count = 0;
  bool any = false;  // for one of them
  const Comm* comm = nullptr;
  int source = 0, tag = 0;  // of the message to probe in `comm`
};

// Blocks until done() is true and makes progress meanwhile. context: as in Engine::wait_until().
template <class Done>
void wait_progressing(Done&& done, std::uint32_t context = tagged::kAnyContext,
                      const WaitsFor* what = nullptr) {
  engine->wait_until(done, context, what);  // runs progress_operations too while there are any
}

inline Code wait_progressing(tagged::Request& request) {
  if (!request.is_complete()) {
    const WaitsFor what{.message = &request};
    wait_progressing([&request] { return request.is_complete(); }, request.context, &what);
  }
  return request.code;
}
// The context in which a message's request that was started completes. Other operations complete in
// any context: the thread that advances them completes them.
inline std::uint32_t context_of(const RequestObject& request) noexcept {
  const bool is_message =
      request.kind == RequestObject::Kind::send || request.kind == RequestObject::Kind::receive;
  return is_message && request.comm != nullptr ? request.base.context : tagged::kAnyContext;
}

// Makes one step of progress, for calls that test.
inline void progress_once(std::uint32_t context = tagged::kAnyContext) {
  engine->progress(context);
  if (num_operations.load(std::memory_order_relaxed) != 0) progress_operations(false);
}

// Fills the status of a complete request (not MPI_ERROR). Returns its error class. After
// MPIX_ERR_PROC_FAILED_PENDING it goes on, and stays the program's.
int read_result(RequestObject* request, MPI_Status* status);
// Calls read_result, then frees the request, or makes it inactive if persistent; *handle follows.
int finish_request(RequestObject* request, MPI_Request* handle, MPI_Status* status);

// Starts a send or receive whose arguments have been checked. `request->buffer`, `count`, `type`,
// `peer`, `tag`, `mode` are set. Returns MPI_SUCCESS or an error class.
int start_send(RequestObject* request);
int start_receive(RequestObject* request);
// The first half of start_receive: provides the memory to receive into. Used alone for matched
// messages.
int prepare_receive(RequestObject* request, void*& data, std::size_t& bytes);

}  // namespace weft::mpi
