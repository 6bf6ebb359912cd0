#pragma once
// Inbox: the commands that the store's thread and the threads of groups leave for the manager, and
// the event descriptor that wakes its thread.
//
// Locks. ManagerCore::mutex guards the commands; the flags are atomics, and hints. All calls from
// any thread.
#include <atomic>
#include <deque>
#include <string>
#include <vector>

#include "core.hpp"

namespace weft::objstore {

enum class CommandKind {
  sealed,
  gone,
  restored,
  wanted,
  unwanted,
  erased,
  read_into,
  no_more_into,
  replicate,
  no_more_copies,
  confirm,
  push,
  no_more_push,
  group_arrived,
  group_ended
};

struct Command {
  CommandKind kind;
  ObjectId id = {};
  std::uint64_t number = 0;  // of the into, of the replication, of the push
  IntoTarget into = {};
  std::uint32_t num_others = 0;
  std::vector<std::string> hosts = {};
  Code code = Code::ok;  // group_ended
};

class Inbox {
 public:
  // may_be_helped: the store's thread polls for urgent commands, so they need not wake the manager.
  Inbox(ManagerCore& core, bool may_be_helped) : core_(core), may_be_helped_(may_be_helped) {}

  // no_memory.
  Status open();
  // Readable from wake() to clear().
  int fd() const { return wake_.get(); }
  void clear();
  void wake();

  void post(const Command& command);
  // All commands so far, in order.
  std::deque<Command> take();
  // relaxed: hints; take() reads the commands under the lock.
  bool has_commands() const { return has_commands_.load(std::memory_order_relaxed); }
  bool has_urgent() const { return has_urgent_.load(std::memory_order_relaxed); }
  // Wakes the manager's thread for urgent commands, once until take().
  void wake_for_urgent();

 private:
  ManagerCore& core_;
  const bool may_be_helped_;
  Descriptor wake_;
  std::deque<Command> commands_;  // under core_.mutex
  // Urgent: the store's thread helps with it, and does not ring for it at once.
  std::atomic<bool> has_commands_{false}, has_urgent_{false}, has_rung_{false};
};

}  // namespace weft::objstore
