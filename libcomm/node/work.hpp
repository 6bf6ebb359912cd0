#pragma once
// Work: one put, get, atomic or long message on its way; lies in the program's Operation, or in a
// batch. Under the lock of its session, but for finish().
#include <array>
#include <memory>
#include <new>
#include <vector>

#include "base/list.hpp"
#include "rma/access.hpp"
#include "weft/operation.hpp"

namespace weft::transport {

struct RemoteRegion;
class Session;
struct Batch;
struct Rail;

struct Work : AccessRequest {
  bool is_send = false;  // a long message, and no access
  bool has_tag = false;
  bool is_repost = false;       // was under way when the link broke
  bool was_tagged = false;      // its notification is on its way
  bool was_put = false;         // by the fabric
  std::uint8_t num_breaks = 0;  // of links that had it
  std::uint32_t put_after = 0;  // the last message that went before that
  Code code = Code::ok;         // once it has ended
  Operation* operation = nullptr;
  Batch* batch = nullptr;  // instead
  Session* session = nullptr;
  std::shared_ptr<RemoteRegion> region;
  std::uint64_t offset = 0;
  std::uint64_t broken_ns = 0;  // when the first of them broke
  // `moved` is also what a long message has sent, and what stripes were handed out.
  std::size_t ended = 0;          // of its bytes, by stripes
  std::uint32_t num_stripes = 0;  // under way
  Rail* rail = nullptr;           // that has it; null: the session's main link
  std::array<std::uint8_t, 16> tag{};
  Work *next = nullptr, *before = nullptr;
};

}  // namespace weft::transport

namespace weft {

// What the transport does to a program's Operation.
struct OperationAccess {
  static transport::Work& begin(Operation& operation) noexcept {
    static_assert(sizeof(transport::Work) <= sizeof operation.work_);
    // relaxed: nobody else knows that it begins.
    operation.state_.store(Operation::kPending, std::memory_order_relaxed);
    auto* work = new (operation.work_) transport::Work;
    work->operation = &operation;
    return *work;
  }
  static void begin_without_work(Operation& operation) noexcept {
    operation.state_.store(Operation::kPending, std::memory_order_relaxed);
  }
  static void set_previous(Operation& operation, std::uint64_t previous) noexcept {
    operation.previous_ = previous;
  }
  static void finish(Operation& operation, Code code) noexcept {
    const auto on_done = operation.on_done;
    // release: what the operation wrote; pairs with Operation::is_done().
    operation.state_.store(static_cast<std::uint32_t>(code), std::memory_order_release);
    // Without on_done the program may have freed it by now.
    if (on_done != nullptr) on_done(operation);
  }
};

}  // namespace weft

namespace weft::transport {

// Several that end as one.
struct Batch {
  Operation* operation = nullptr;
  std::size_t left = 0;
  Code code = Code::ok;  // the first that is not ok
  std::vector<Work> works;
};

// Ends the program's operation. Without locks: the program may be called.
void finish(Work& work);

class WorkList : public List<Work> {
 public:
  void finish_all() {
    while (Work* work = pop_front()) finish(*work);
  }
};

// Ends all in it at last, also where what came after had no memory. Declared before locks.
struct FinishedWorks : WorkList {
  ~FinishedWorks() { finish_all(); }
};

}  // namespace weft::transport
