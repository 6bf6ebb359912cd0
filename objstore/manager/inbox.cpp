#include "inbox.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

namespace weft::objstore {

Status Inbox::open() {
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return system_error("making the manager's doorbell");
  return Code::ok;
}

void Inbox::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void Inbox::clear() {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
}

void Inbox::post(const Command& command) {
  // The store's thread progresses these itself.
  const bool is_urgent = may_be_helped_ && (command.kind == CommandKind::wanted ||
                                            command.kind == CommandKind::read_into);
  bool rings;
  {
    const std::lock_guard lock(core_.mutex);
    rings = commands_.empty() && !is_urgent;  // otherwise its first one has rung
    commands_.push_back(command);
    has_commands_.store(true, std::memory_order_relaxed);
    if (is_urgent) has_urgent_.store(true, std::memory_order_relaxed);
  }
  if (rings) wake();
}

std::deque<Command> Inbox::take() {
  std::deque<Command> commands;
  const std::lock_guard lock(core_.mutex);
  commands.swap(commands_);
  has_commands_.store(false, std::memory_order_relaxed);
  has_urgent_.store(false, std::memory_order_relaxed);
  has_rung_.store(false, std::memory_order_relaxed);
  return commands;
}

void Inbox::wake_for_urgent() {
  if (!has_rung_.exchange(true, std::memory_order_relaxed)) wake();
}

}  // namespace weft::objstore
