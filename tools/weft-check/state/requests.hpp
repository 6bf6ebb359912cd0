#pragma once
// Requests: what the operation of each handle does, from the call that makes it to the one that
// ends it.
//
// Threads: any.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tools/weft-check/call.hpp"
#include "tools/weft-check/ranks/comms.hpp"
#include "tools/weft-check/ranks/messages.hpp"
#include "tools/weft-check/state/buffers.hpp"

namespace weft::check {

struct Operation {
  Call call;
  bool is_persistent = false;
  bool is_active = true;
  bool is_partitioned = false;
  bool is_cancelled = false;  // the program has tried
  bool is_known = false;      // by MPI_Request_get_status: it is complete
  std::vector<Memory> memory;
  std::vector<Use> uses;
  // A send or a receive.
  enum class Message : std::uint8_t { none, send, receive, both } message = Message::none;
  std::shared_ptr<Comm> comm;
  int peer = MPI_PROC_NULL, tag = 0;
  std::shared_ptr<const Layout> layout;
  std::uint64_t count = 0;
  std::uint32_t note = 0;
  Receive* receive = nullptr;
  std::function<void()> at_end;        // after it is complete
  const MPI_Request* place = nullptr;  // where the program keeps the handle
};

// An operation of memory that lasts beyond the call; null layout: none.
Memory lasting_memory(const void* buffer, std::uint64_t count, MPI_Datatype type, Access access);

// Called when a call has made a request; the memory's uses begin, if it is active. Operations that
// were complete at once may have one handle in common.
void add_request(const MPI_Request* place, Operation operation);
// Called before a persistent request starts.
void start_request(MPI_Request handle);
// Called when the request is complete (and no handle any more, if it is not persistent). place:
// where its handle was.
void end_request(MPI_Request handle, const MPI_Request* place, const MPI_Status& status,
                 int error_class);
// Called before MPI_Cancel.
void cancel_request(const MPI_Request* place);
// Called when MPI_Request_get_status has told that it is complete.
void note_known(MPI_Request handle);
// Called before MPI_Request_free.
void free_request(const MPI_Request* place);
// Called in MPI_Finalize.
void report_requests();

}  // namespace weft::check
