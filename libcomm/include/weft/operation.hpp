#pragma once
// Operation: one put, get, atomic or batch under way; the program's token for it. The program
// places it, and must keep it there until it is done; then it may be used again. Nothing is
// allocated for it.
//
// Threads: one thread starts it, any thread may check whether it is done.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/export.hpp"
#include "weft/status.hpp"

namespace weft {

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // acquire: the operation's writes before it was done; pairs with OperationAccess::finish.
  bool is_done() const noexcept { return state_.load(std::memory_order_acquire) != kPending; }
  // ok, or why it failed: peer_lost, bad_argument (out of bounds), not_permitted (rights, or a key
  // that was withdrawn, forged or of another life of the peer), timed_out, outcome_unknown (an
  // atomic whose link broke: done or not). again while it is under way.
  Code code() const noexcept {
    const std::uint32_t state = state_.load(std::memory_order_acquire);
    return state == kPending ? Code::again : static_cast<Code>(state);
  }
  // The word's value before a cas or fetch_add that has ended with ok.
  std::uint64_t previous() const noexcept { return previous_; }

  // If set before the start: called once when the operation has ended, by a thread in progress() or
  // wait(), or within the start itself. It may start other operations, this one included, and must
  // not throw.
  void (*on_done)(Operation&) = nullptr;
  void* context = nullptr;  // the program's

 private:
  friend struct OperationAccess;
  static constexpr std::uint32_t kPending = 0x100;
  std::atomic<std::uint32_t> state_{0};
  std::uint64_t previous_ = 0;
  alignas(16) std::byte work_[192];
};

}  // namespace weft
