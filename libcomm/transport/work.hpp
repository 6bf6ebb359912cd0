#pragma once
// Work: one put, get, atomic or long message on its way; lies in the program's Operation, or in a
// batch. Under the lock of its session, but for finish().
#include <array>
#include <memory>
#include <new>
#include <vector>

#include "fabric/endpoint.hpp"
#include "weft/operation.hpp"

namespace weft::transport {

struct RemoteRegion;
class Session;
struct Batch;
struct Rail;

enum class WorkKind : std::uint8_t { put, get, fetch_add, compare_swap, send };
// Of the two kinds that are atomics.
constexpr fabric::Atomic atomic_of(WorkKind kind) {
  return kind == WorkKind::fetch_add ? fabric::Atomic::fetch_add : fabric::Atomic::compare_swap;
}

struct Work : fabric::Request {
  WorkKind kind = WorkKind::put;
  bool has_tag = false;
  bool is_repost = false;  // was under way when the link broke
  Code code = Code::ok;    // once it has ended
  std::uint32_t id = 0;    // at the owner's side, which does it; 0: the fabric does
  Operation* operation = nullptr;
  Batch* batch = nullptr;  // instead
  Session* session = nullptr;
  std::shared_ptr<RemoteRegion> region;
  std::byte* local = nullptr;
  std::size_t bytes = 0;
  std::uint64_t offset = 0;
  std::size_t moved = 0;          // of the bytes, by owner or send; of stripes: handed out
  std::size_t ended = 0;          // the same, of stripes that have ended
  std::uint32_t num_stripes = 0;  // under way
  Rail* rail = nullptr;           // that has it; null: the session's main link
  std::uint64_t operand = 0, compare = 0, previous = 0;
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

class WorkList {
 public:
  bool empty() const { return first_ == nullptr; }
  Work* first() const { return first_; }
  void push_back(Work& work) {
    work.before = last_;
    work.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &work;
    last_ = &work;
  }
  void remove(Work& work) {
    (work.before != nullptr ? work.before->next : first_) = work.next;
    (work.next != nullptr ? work.next->before : last_) = work.before;
  }
  Work* pop_front() {
    Work* work = first_;
    if (work != nullptr) remove(*work);
    return work;
  }
  void finish_all() {
    while (Work* work = pop_front()) finish(*work);
  }

 private:
  Work *first_ = nullptr, *last_ = nullptr;
};

}  // namespace weft::transport
