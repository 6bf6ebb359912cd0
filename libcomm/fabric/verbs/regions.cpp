// Memory that others may use.
//
// A device that refuses an access ends the whole connection, and with it what both ends have under
// way there. So memory that stays shared is asked about first: its owner says once per peer what it
// is (look, found), the peer checks every access against that, and the owner's release() tells
// those who have asked (gone) and waits until nothing of theirs is under way (forgotten). Only then
// the device's key ends. What forged or outdated names ask for is refused without harm; who does
// not keep to this is still refused by the device, and lost.
//
// Memory that is shared once is read by one peer, who says when it is done: its registration comes
// from the cache and nobody asks. The device lets the peer read there, never write, for as long as
// the cache keeps the registration (registrations.hpp).
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

// What peers may do with memory, and with constants.
constexpr int kReadable = IBV_ACCESS_REMOTE_READ;
constexpr int kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                          IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

Status VerbsFabric::add_region(void* address, std::size_t bytes, std::size_t mapped_bytes,
                               RemoteMemory& memory) {
  ibv_mr* mr = nullptr;
  Status status = registrations_->make(address, bytes, kWritable, mr);
  const bool is_writable = status.code() != Code::bad_argument;
  if (!is_writable)  // constants, perhaps
    status = registrations_->make(address, bytes, kReadable, mr);
  if (!status) return status;
  const std::lock_guard lock(memory_);
  do last_region_ = (last_region_ + 1) & ~kOnceBit;
  while (last_region_ == 0 || regions_.contains(last_region_));
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  regions_[last_region_] = {start, bytes, mapped_bytes, mr, is_writable, false, {}};
  memory = {start, bytes, last_region_, mr->rkey};
  return {};
}

Status VerbsFabric::allocate(std::size_t bytes, void*& address, RemoteMemory& memory) {
  if (bytes == 0) return {Code::bad_argument, "no bytes"};
  const std::size_t whole = (bytes + 4095) & ~std::size_t{4095};
  void* mapped = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return {Code::no_memory, fmt::format("cannot map {} bytes: {}", whole, std::strerror(errno))};
  if (Status status = add_region(mapped, bytes, whole, memory); !status) {
    munmap(mapped, whole);
    return status;
  }
  address = mapped;
  return {};
}

Status VerbsFabric::release(void* address) {
  std::uint32_t number = 0;
  {
    const std::lock_guard lock(memory_);
    for (const auto& [index, region] : regions_)
      if (region.mapped_bytes != 0 && region.address == reinterpret_cast<std::uintptr_t>(address))
        number = index;
  }
  if (number == 0) return {Code::bad_argument, "this memory is not allocated"};
  return end_region(number);
}

RemoteMemory VerbsFabric::describe(const void* address, std::size_t bytes) const noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(memory_);
  for (const auto& [number, region] : regions_)
    if (region.mapped_bytes != 0 && !region.ending && region.has(first, bytes))
      return {first, bytes, number, region.mr->rkey};
  return {first, bytes, 0, 0};
}

Status VerbsFabric::share(void* address, std::size_t bytes, RemoteMemory& memory) {
  memory = describe(address, bytes);
  return memory.region != 0 ? Status() : add_region(address, bytes, 0, memory);
}

Status VerbsFabric::share_once(void* address, std::size_t bytes, RemoteMemory& memory) {
  Registration* registration = nullptr;
  if (Status status = registrations_->acquire(address, bytes, false, registration); !status)
    return status;
  const std::lock_guard lock(memory_);
  if (free_once_.empty()) {
    free_once_.push_back(static_cast<std::uint32_t>(shared_once_.size()));
    shared_once_.emplace_back();
  }
  const std::uint32_t index = free_once_.back();
  free_once_.pop_back();
  shared_once_[index].registration = registration;
  num_bulk_.fetch_add(1, std::memory_order_relaxed);
  memory = {reinterpret_cast<std::uintptr_t>(address), bytes, kOnceBit | index,
            registration->rkey()};
  return {};
}

Status VerbsFabric::unshare(const RemoteMemory& memory) {
  const Status unknown(Code::bad_argument, "this memory is not shared");
  if ((memory.region & kOnceBit) == 0) {
    {
      const std::lock_guard lock(memory_);
      const auto found = regions_.find(memory.region);
      if (found == regions_.end() || found->second.mr->rkey != memory.extra) return unknown;
      if (found->second.mapped_bytes != 0) return {};  // release() ends it
    }
    return end_region(memory.region);
  }
  Registration* registration = nullptr;
  {
    const std::lock_guard lock(memory_);
    const std::uint32_t index = memory.region & ~kOnceBit;
    if (index >= shared_once_.size() || shared_once_[index].registration == nullptr ||
        shared_once_[index].registration->rkey() != memory.extra)
      return unknown;
    registration = std::exchange(shared_once_[index].registration, nullptr);
    free_once_.push_back(index);
    num_bulk_.fetch_sub(1, std::memory_order_relaxed);
  }
  registrations_->release(registration);
  return {};
}

Status VerbsFabric::end_region(std::uint32_t number) noexcept {
  std::vector<int> users;
  std::uint32_t key = 0;
  {
    const std::lock_guard lock(memory_);
    const auto found = regions_.find(number);
    if (found == regions_.end() || std::exchange(found->second.ending, true))
      return {Code::bad_argument, "this memory is no longer shared"};
    users = found->second.users;
    key = found->second.mr->rkey;
  }
  for (const int peer : users) send_control(at(peer), about(ControlKind::gone, number, key));
  // Who does not answer may have stopped, with an access under way that the device then refuses.
  for (const std::uint64_t limit = now_ns() + peer_timeout_ns_;
       has_users(number) && now_ns() < limit; sched_yield())
    poll();
  Region region;
  {
    const std::lock_guard lock(memory_);
    const auto found = regions_.find(number);
    region = std::move(found->second);
    regions_.erase(found);
  }
  (void)ibv_dereg_mr(region.mr);
  if (region.mapped_bytes != 0)
    munmap(reinterpret_cast<void*>(region.address), region.mapped_bytes);
  return {};
}

// Who is gone uses nothing any more.
bool VerbsFabric::has_users(std::uint32_t number) noexcept {
  const std::lock_guard lock(memory_);
  std::vector<int>& users = regions_.at(number).users;
  std::erase_if(users, [this](int peer) {
    return at(peer).state.load(std::memory_order_relaxed) == Connection::failed ||
           at(peer).peer_left.load(std::memory_order_relaxed);
  });
  return !users.empty();
}

// --- Memory of a peer. With the connection's lock held.

// Queues an operation, at once or after the owner's answer; bad_argument: it says no.
Code VerbsFabric::admit(Connection& connection, const RemoteMemory& remote, const Part& whole) {
  if ((remote.region & kOnceBit) != 0) {
    queue(connection, whole);
    return Code::ok;
  }
  const auto [entry, is_new] =
      connection.regions.try_emplace(region_name(remote.region, remote.extra));
  PeerRegion& region = entry->second;
  if (is_new) {
    region.number = remote.region;
    region.key = remote.extra;
    connection.controls.push_back(about(ControlKind::look, region.number, region.key));
  }
  if (region.state == PeerRegion::ending ||
      (region.state == PeerRegion::found && !region.has(whole)))
    return Code::bad_argument;
  ++region.num_operations;
  whole.operation->region = &region;
  if (region.state == PeerRegion::asking)
    region.waiting.push_back(whole);
  else
    queue(connection, whole);
  return Code::ok;
}

// An operation has ended.
void VerbsFabric::leave_region(Connection& connection, Operation& operation) noexcept {
  PeerRegion& region = *std::exchange(operation.region, nullptr);
  if (--region.num_operations == 0 && region.state == PeerRegion::ending)
    forget(connection, region);
}

// After it `region` is no more.
void VerbsFabric::forget(Connection& connection, const PeerRegion& region) noexcept {
  connection.controls.push_back(about(ControlKind::forgotten, region.number, region.key));
  connection.regions.erase(region_name(region.number, region.key));
}

// The operation is to be ended, without the lock.
Operation* VerbsFabric::refuse_access(Connection& connection, const Part& whole) noexcept {
  whole.operation->parts = 1;
  (void)part_done(connection, *whole.operation, Code::bad_argument);
  return whole.operation;
}

// --- What is told.

Control VerbsFabric::about(ControlKind kind, std::uint32_t number,
                           std::uint32_t key) const noexcept {
  return {kind, {}, static_cast<std::uint32_t>(job_.rank()), number, 0, 0, key, 0};
}

void VerbsFabric::on_look(Connection& connection, const Control& control) {
  Control answer = about(ControlKind::gone, control.lane, control.key);
  {
    const std::lock_guard lock(memory_);
    const auto found = regions_.find(control.lane);
    if (found != regions_.end() && !found->second.ending && found->second.mr->rkey == control.key) {
      Region& region = found->second;
      if (std::find(region.users.begin(), region.users.end(), connection.peer) ==
          region.users.end())
        region.users.push_back(connection.peer);
      answer.kind = ControlKind::found;
      answer.flags[0] = owner_changes_ ? kOwnerChanges : 0;
      answer.b = region.address;
      answer.a = static_cast<std::uint32_t>(region.bytes);
      answer.high = static_cast<std::uint32_t>(region.bytes >> 32);
    }
  }
  send_control(connection, answer);
}

void VerbsFabric::on_found(Connection& connection, const Control& control) {
  std::vector<Operation*> refused;
  bool was_asked = false;
  {
    const std::lock_guard lock(connection.lock);
    const auto found = connection.regions.find(region_name(control.lane, control.key));
    was_asked = found != connection.regions.end() && found->second.state == PeerRegion::asking;
    if (was_asked) {
      PeerRegion& region = found->second;
      region.state = PeerRegion::found;
      region.owner_changes = (control.flags[0] & kOwnerChanges) != 0;
      region.address = control.b;
      region.bytes = std::uint64_t{control.high} << 32 | control.a;
      for (const Part& whole : std::exchange(region.waiting, {})) {
        if (region.has(whole))
          queue(connection, whole);
        else
          refused.push_back(refuse_access(connection, whole));
      }
    }
  }
  if (!was_asked) return broken(connection, "an answer");
  for (Operation* operation : refused) end_operation(*operation);
  push(connection);
}

void VerbsFabric::on_gone(Connection& connection, const Control& control) {
  std::vector<Operation*> refused;
  {
    const std::lock_guard lock(connection.lock);
    const auto found = connection.regions.find(region_name(control.lane, control.key));
    if (found == connection.regions.end()) return;
    PeerRegion& region = found->second;
    if (region.state == PeerRegion::asking) {
      for (const Part& whole : region.waiting) refused.push_back(refuse_access(connection, whole));
      connection.regions.erase(found);
    } else {
      region.state = PeerRegion::ending;
      if (region.num_operations == 0) forget(connection, region);
    }
  }
  for (Operation* operation : refused) end_operation(*operation);
  push(connection);
}

void VerbsFabric::on_forgotten(Connection& connection, const Control& control) {
  const std::lock_guard lock(memory_);
  const auto found = regions_.find(control.lane);
  if (found != regions_.end() && found->second.mr->rkey == control.key)
    std::erase(found->second.users, connection.peer);
}

}  // namespace weft::verbs
