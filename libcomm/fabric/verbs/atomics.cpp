// cas and fetch_add: by the device, or by the processor of the memory's owner.
//
// Most devices are atomic among their own operations only (IBV_ATOMIC_HCA). The owner and the other
// ranks of its host use the processor, and then lose or double what a device does at the same time.
// So WEFT_VERBS_ATOMICS=auto takes the owner's device where that is atomic with its processors too
// (IBV_ATOMIC_GLOB), and asks the owner where it is not: two control messages and an answer. What
// the owner does is never done twice, also when the link breaks meanwhile; the messages are among
// those that are counted.
#include <atomic>
#include <cstring>

#include "fabric/verbs/impl.hpp"

namespace weft::verbs {

Code VerbsFabric::atomic(Operation::Kind kind, int peer, const RemoteMemory& word,
                         std::size_t offset, std::uint64_t value, std::uint64_t compare,
                         std::uint64_t& previous) noexcept {
  if (word.region == 0 || (word.address + offset) % 8 != 0 || offset > word.bytes ||
      word.bytes - offset < 8)
    return Code::bad_argument;
  if (!reaches(peer)) return Code::unsupported;
  Connection& connection = at(peer);
  if (connection.state.load(std::memory_order_acquire) == Connection::failed)
    return Code::peer_lost;
  Operation* operation = nullptr;
  while ((operation = take_operation(true)) == nullptr) poll();  // slots come back
  Completion completion;
  operation->kind = kind;
  operation->completion = &completion;
  operation->user = &previous;
  operation->user_bytes = 8;
  begin(connection, word,
        {operation, reinterpret_cast<std::uintptr_t>(operation->slot), word.address + offset, 8,
         slot_mr_->lkey, word.extra, value, compare});
  return finish(peer, completion);
}

Code VerbsFabric::cas(int peer, const RemoteMemory& word, std::size_t offset, std::uint64_t compare,
                      std::uint64_t swap, std::uint64_t& previous) noexcept {
  return atomic(Operation::cas, peer, word, offset, swap, compare, previous);
}
Code VerbsFabric::fetch_add(int peer, const RemoteMemory& word, std::size_t offset,
                            std::uint64_t value, std::uint64_t& previous) noexcept {
  return atomic(Operation::add, peer, word, offset, value, 0, previous);
}

bool VerbsFabric::is_for_owner(const Part& whole) noexcept {
  const Operation& operation = *whole.operation;
  return (operation.kind == Operation::cas || operation.kind == Operation::add) &&
         operation.region != nullptr && operation.region->owner_changes;
}

// With the connection's lock held.
void VerbsFabric::ask_owner(Connection& connection, const Part& whole) {
  const std::uint32_t number = connection.next_change++;
  whole.operation->parts = 1;
  connection.changes[number] = whole.operation;
  const PeerRegion& region = *whole.operation->region;
  Control operands =
      about(ControlKind::operands, number, static_cast<std::uint32_t>(whole.compare));
  operands.high = static_cast<std::uint32_t>(whole.compare >> 32);
  operands.b = whole.value;
  connection.controls.push_back(operands);
  Control change =
      about(whole.operation->kind == Operation::cas ? ControlKind::cas : ControlKind::fetch_add,
            region.number, region.key);
  change.a = number;
  change.b = whole.there;
  connection.controls.push_back(change);
}

// The other messages, with poll_lock_ and setup_ held.

void VerbsFabric::on_change(Connection& connection, const Control& control) {
  const Control operands = std::exchange(connection.operands, Control{});
  if (operands.kind != ControlKind::operands || operands.lane != control.a)
    return broken(connection, "an atomic operation");
  Control answer = about(ControlKind::changed, control.a, 0);
  answer.a = static_cast<std::uint32_t>(Code::bad_argument);
  {
    const std::lock_guard lock(memory_);
    const auto found = regions_.find(control.lane);
    if (found != regions_.end() && found->second.is_writable &&
        found->second.mr->rkey == control.key && found->second.has(control.b, 8) &&
        control.b % 8 == 0) {
      const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(control.b));
      answer.a = static_cast<std::uint32_t>(Code::ok);
      answer.b = std::uint64_t{operands.high} << 32 | operands.key;
      if (control.kind == ControlKind::cas)
        word.compare_exchange_strong(answer.b, operands.b);
      else
        answer.b = word.fetch_add(operands.b);
    }
  }
  send_control(connection, answer);
}

void VerbsFabric::on_changed(Connection& connection, const Control& control) {
  Operation* operation = nullptr;
  {
    const std::lock_guard lock(connection.lock);
    const auto found = connection.changes.find(control.lane);
    if (found != connection.changes.end()) {
      operation = found->second;
      connection.changes.erase(found);
      std::memcpy(operation->slot, &control.b, sizeof control.b);
      (void)part_done(
          connection, *operation,
          control.a == static_cast<std::uint32_t>(Code::ok) ? Code::ok : Code::bad_argument);
    }
  }
  if (operation == nullptr) return broken(connection, "an answer");
  end_operation(*operation);
  push(connection);
}

}  // namespace weft::verbs
