#pragma once
// NodeRequest: one put, get, atomic or long message under way. It lies in the program's Operation,
// or in a batch. Under the lock of its session, except finish().
#include <array>
#include <memory>
#include <new>
#include <vector>

#include "base/containers/list.hpp"
#include "rma/access.hpp"
#include "weft/operation.hpp"

namespace weft::transport {

struct RemoteRegion;
class Session;
struct Batch;
struct Rail;

struct NodeRequest : AccessRequest {
  bool is_send = false;  // a long message
  bool has_tag = false;
  bool is_repost = false;       // was in flight when the link broke
  bool was_tagged = false;      // its notification is sent
  bool was_put = false;         // by the fabric
  std::uint32_t put_after = 0;  // the last message before the put
  Code code = Code::ok;         // once it has ended
  Operation* operation = nullptr;
  Batch* batch = nullptr;  // instead of operation
  Session* session = nullptr;
  std::shared_ptr<RemoteRegion> region;
  std::uint64_t offset = 0;
  std::uint64_t broken_ns = 0;  // the first break
  // `moved` also counts the sent bytes of a long message, and the bytes assigned to stripes.
  std::size_t ended = 0;          // of its bytes, by stripes
  std::uint32_t num_stripes = 0;  // in flight
  Rail* rail = nullptr;           // null: the session's main link
  std::array<std::uint8_t, 16> tag{};
  NodeRequest *next = nullptr, *before = nullptr;
};

}  // namespace weft::transport

namespace weft {

// The transport's access to a program's Operation.
struct OperationAccess {
  static transport::NodeRequest& begin(Operation& operation) noexcept {
    static_assert(sizeof(transport::NodeRequest) <= sizeof operation.work_);
    // relaxed: no other thread knows the operation yet.
    operation.state_.store(Operation::kPending, std::memory_order_relaxed);
    auto* request = new (operation.work_) transport::NodeRequest;
    request->operation = &operation;
    return *request;
  }
  // For an operation that ends without a NodeRequest.
  static void begin_inline(Operation& operation) noexcept {
    operation.state_.store(Operation::kPending, std::memory_order_relaxed);
  }
  static void set_previous(Operation& operation, std::uint64_t previous) noexcept {
    operation.previous_ = previous;
  }
  static void finish(Operation& operation, Code code) noexcept {
    const auto on_done = operation.on_done;
    // release: the operation's writes; pairs with Operation::is_done().
    operation.state_.store(static_cast<std::uint32_t>(code), std::memory_order_release);
    // Read before: without on_done the program may have freed the operation by now.
    if (on_done != nullptr) on_done(operation);
  }
};

}  // namespace weft

namespace weft::transport {

// Several requests that end as one operation.
struct Batch {
  Operation* operation = nullptr;
  std::size_t left = 0;
  Code code = Code::ok;  // the first that is not ok
  std::vector<NodeRequest> requests;
};

// Ends the program's operation. Call it without locks, as it may call the program.
void finish(NodeRequest& request);

class RequestList : public List<NodeRequest> {
 public:
  void finish_all() {
    while (NodeRequest* request = pop_front()) finish(*request);
  }
};

// Finishes its requests at the end of the scope, even after an exception. Declared before locks.
struct FinishedRequests : RequestList {
  ~FinishedRequests() { finish_all(); }
};

}  // namespace weft::transport
