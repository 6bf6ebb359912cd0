// Get and put. The memory here is registered by way of the cache, or, if there are few bytes, the
// operation goes by way of a slot of registered memory: copying them is cheaper than registering,
// say, a word on a stack.
#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "fabric/verbs/impl.hpp"

namespace weft::verbs {
namespace {

constexpr std::size_t kOperationBlock = 64;
constexpr std::uint64_t kFlushNs = 1'000'000'000;

}  // namespace

Status VerbsFabric::make_slots() {
  void* memory = mmap(nullptr, kNumSlots * kSlotBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {Code::no_memory, "cannot map memory"};
  slots_ = static_cast<std::byte*>(memory);
  slot_mr_ = ibv_reg_mr(device_->pd, memory, kNumSlots * kSlotBytes, IBV_ACCESS_LOCAL_WRITE);
  if (slot_mr_ == nullptr) return registration_error(errno, kNumSlots * kSlotBytes);
  operation_blocks_.push_back(std::make_unique<Operation[]>(kNumSlots));
  for (std::size_t i = 0; i < kNumSlots; ++i) {
    Operation& operation = operation_blocks_[0][i];
    operation.slot = slots_ + i * kSlotBytes;
    operation.next_free = std::exchange(free_slotted_, &operation);
  }
  return {};
}

Operation* VerbsFabric::take_operation(bool with_slot) noexcept {
  const std::lock_guard lock(operations_lock_);
  Operation*& list = with_slot ? free_slotted_ : free_operations_;
  if (list == nullptr) {
    if (with_slot) return nullptr;
    operation_blocks_.push_back(std::make_unique<Operation[]>(kOperationBlock));
    for (std::size_t i = 0; i < kOperationBlock; ++i) {
      Operation& operation = operation_blocks_.back()[i];
      operation.next_free = std::exchange(list, &operation);
    }
  }
  Operation* operation = list;
  list = operation->next_free;
  operation->code = Code::ok;
  operation->region = nullptr;
  return operation;
}

// With the connection's lock held. True: that was the last part, end_operation() is due.
bool VerbsFabric::part_done(Connection& connection, Operation& operation, Code code) noexcept {
  if (code != Code::ok && operation.code == Code::ok) operation.code = code;
  if (--operation.parts != 0) return false;
  if (operation.region != nullptr) leave_region(connection, operation);
  return true;
}

// With the connection's lock held: cuts an operation into requests.
void VerbsFabric::queue(Connection& connection, const Part& whole) {
  if (is_for_owner(whole)) return ask_owner(connection, whole);
  const std::size_t part_max = std::min<std::size_t>(
      address_of(connection.peer).loops_back ? kLoopPartMax : kPartMax, device_->max_message);
  whole.operation->parts = static_cast<std::uint32_t>((whole.bytes + part_max - 1) / part_max);
  for (std::size_t done = 0; done < whole.bytes; done += part_max) {
    Part part = whole;
    part.here += done;
    part.there += done;
    part.bytes = std::min(part_max, whole.bytes - done);
    connection.parts.push_back(part);
  }
}

void VerbsFabric::end_operation(Operation& operation) noexcept {
  if (operation.slot != nullptr && operation.user != nullptr && operation.code == Code::ok)
    std::memcpy(operation.user, operation.slot, operation.user_bytes);
  if (operation.registration != nullptr) {
    registrations_->release(operation.registration);
    num_bulk_.fetch_sub(1, std::memory_order_relaxed);
  }
  operation.registration = nullptr;
  Completion* completion = operation.completion;
  const Code code = operation.code;
  {
    const std::lock_guard lock(operations_lock_);
    Operation*& list = operation.slot != nullptr ? free_slotted_ : free_operations_;
    operation.next_free = std::exchange(list, &operation);
  }
  found_operation_.store(true, std::memory_order_relaxed);
  // Last: its owner may free it, and the memory.
  completion->set(code);
}

void VerbsFabric::start(Operation::Kind kind, int peer, const RemoteMemory& remote,
                        std::size_t offset, void* here, std::size_t bytes,
                        Completion& completion) noexcept {
  if (offset > remote.bytes || bytes > remote.bytes - offset)
    return completion.set(Code::bad_argument);
  if (remote.region == 0) return completion.set(Code::bad_argument);  // nobody shares it
  if (bytes == 0) return completion.set(Code::ok);
  if (!reaches(peer)) return completion.set(Code::unsupported);
  Connection& connection = at(peer);
  if (connection.state.load(std::memory_order_acquire) == Connection::failed)
    return completion.set(Code::peer_lost);

  Operation* operation = bytes <= kSlotBytes ? take_operation(true) : nullptr;
  std::uint64_t local = 0;
  std::uint32_t lkey = 0;
  if (operation != nullptr) {
    operation->user = kind == Operation::read ? here : nullptr;
    operation->user_bytes = static_cast<std::uint32_t>(bytes);
    if (kind == Operation::write) std::memcpy(operation->slot, here, bytes);
    local = reinterpret_cast<std::uintptr_t>(operation->slot);
    lkey = slot_mr_->lkey;
  } else {
    Registration* registration = nullptr;
    if (Status status = registrations_->acquire(here, bytes, kind == Operation::read, registration);
        !status) {
      log_line(LogLevel::error, job_.rank(), "{}", status.text());
      return completion.set(status.code());
    }
    operation = take_operation(false);
    operation->registration = registration;
    num_bulk_.fetch_add(1, std::memory_order_relaxed);
    local = reinterpret_cast<std::uintptr_t>(here);
    lkey = registration->lkey();
  }
  operation->kind = kind;
  operation->completion = &completion;
  begin(connection, remote,
        {operation, local, remote.address + offset, bytes, lkey, remote.extra, 0, 0});
}

// It goes out, or once there is a connection, or ends with that.
void VerbsFabric::begin(Connection& connection, const RemoteMemory& remote,
                        const Part& whole) noexcept {
  Code code = Code::ok;
  {
    const std::lock_guard lock(connection.lock);
    code = admit(connection, remote, whole);
  }
  if (code != Code::ok) {
    whole.operation->code = code;
    return end_operation(*whole.operation);
  }
  switch (connection.state.load(std::memory_order_acquire)) {
    case Connection::ready:
      return push(connection);
    case Connection::idle: {
      const std::lock_guard lock(setup_);
      return begin_connecting(connection);
    }
    case Connection::failed:
      return drop_parts(connection);
    default:
      return;
  }
}

void VerbsFabric::drop_parts(Connection& connection) noexcept {
  for (;;) {
    Operation* finished = nullptr;
    {
      const std::lock_guard lock(connection.lock);
      connection.controls.clear();
      for (auto& [name, region] : connection.regions)
        for (const Part& whole : std::exchange(region.waiting, {})) queue(connection, whole);
      Operation* operation = nullptr;
      if (!connection.parts.empty()) {
        operation = connection.parts.front().operation;
        connection.parts.pop_front();
      } else if (!connection.changes.empty()) {
        operation = connection.changes.begin()->second;
        connection.changes.erase(connection.changes.begin());
      } else {
        return;
      }
      if (part_done(connection, *operation, Code::peer_lost)) finished = operation;
    }
    if (finished != nullptr) end_operation(*finished);
  }
}

void VerbsFabric::start_get(int peer, const RemoteMemory& from, std::size_t offset, void* to,
                            std::size_t bytes, Completion& completion) noexcept {
  start(Operation::read, peer, from, offset, to, bytes, completion);
}
void VerbsFabric::start_put(int peer, const RemoteMemory& to, std::size_t offset, const void* from,
                            std::size_t bytes, Completion& completion) noexcept {
  start(Operation::write, peer, to, offset, const_cast<void*>(from), bytes, completion);
}

Code VerbsFabric::finish(int peer, Completion& completion) noexcept {
  std::uint64_t failed_at = 0;
  for (unsigned i = 1; !completion.is_done(); ++i) {
    poll();
    if (i % 64 != 0) continue;
    sched_yield();
    if (at(peer).state.load(std::memory_order_acquire) != Connection::failed) continue;
    // Its requests are being flushed; a device that does not do that is not waited for.
    const std::uint64_t now = now_ns();
    if (failed_at == 0) failed_at = now;
    if (now - failed_at > kFlushNs) disconnect(peer);
  }
  return completion.code();
}

Code VerbsFabric::get(int peer, const RemoteMemory& from, std::size_t offset, void* to,
                      std::size_t bytes) noexcept {
  Completion completion;
  start(Operation::read, peer, from, offset, to, bytes, completion);
  return finish(peer, completion);
}
Code VerbsFabric::put(int peer, const RemoteMemory& to, std::size_t offset, const void* from,
                      std::size_t bytes) noexcept {
  Completion completion;
  start(Operation::write, peer, to, offset, const_cast<void*>(from), bytes, completion);
  return finish(peer, completion);
}

}  // namespace weft::verbs
