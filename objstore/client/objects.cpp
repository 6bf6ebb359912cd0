// Taking and releasing sealed objects, without messages while they are here.
#include <algorithm>
#include <cstring>

#include "impl.hpp"
#include "objstore/shared/clock.hpp"

namespace weft {

using namespace objstore;

namespace {

// Slots of released objects are kept, so that a repeated get finds its own, up to this many: the
// store reads them all when it needs room.
constexpr std::uint32_t kKeptSlots = 1024;
constexpr std::uint32_t kMostIds = 1 << 16;  // of one call

// As wait reads it; where the next one goes.
std::byte* write_id(std::byte* to, const ObjectId& id) {
  *to = static_cast<std::byte>(id.size);
  std::memcpy(to + 1, id.bytes.data(), id.size);
  return to + 1 + id.size;
}

}  // namespace

Object::Object(const Object& other)
    : store_(other.store_), slot_(other.slot_), data_(other.data_), metadata_(other.metadata_) {
  if (store_ != nullptr) store_->add_reference(slot_);
}

void Object::release() noexcept {
  if (store_ == nullptr) return;
  store_->release(slot_);
  store_ = nullptr;
  data_ = metadata_ = {};
}

void ObjectStoreImpl::add_reference(std::uint32_t slot) noexcept {
  if (fork_mark_.is_child()) return;
  const std::lock_guard lock(mutex_);
  Slot& mine = control().slots[slot];
  mine.count.store(mine.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void ObjectStoreImpl::release(std::uint32_t slot) noexcept {
  if (fork_mark_.is_child()) return;
  const std::lock_guard lock(mutex_);
  Slot& mine = control().slots[slot];
  const std::uint32_t count = mine.count.load(std::memory_order_relaxed) - 1;
  // release: what was read of the object; pairs with the fence before Server::read.
  mine.count.store(count, std::memory_order_release);
  if (count == 0 && index_.header().wants_release.load(std::memory_order_relaxed) != 0) {
    Request request{};
    request.op = Op::nudge;
    // If all calls are under way the store checks by itself before long.
    if (submit_locked(request, nullptr)) pending_[request.tag].is_left = true;
  }
}

std::uint32_t ObjectStoreImpl::free_slot_locked() {
  Control& control = this->control();
  if (slots_used_ >= kKeptSlots) {
    const std::uint32_t tries = slots_used_ == kSlots ? kSlots : 16;
    for (std::uint32_t i = 0; i < tries; ++i) {
      slot_hand_ = slot_hand_ + 1 < slots_used_ ? slot_hand_ + 1 : 0;
      if (control.slots[slot_hand_].count.load(std::memory_order_relaxed) == 0) return slot_hand_;
    }
    if (slots_used_ == kSlots) return kSlots;
  }
  // release: the slot is zero; pairs with Server::read.
  control.slots_used.store(slots_used_ + 1, std::memory_order_release);
  return slots_used_++;
}

// The whole of a get of an object that is here.
bool ObjectStoreImpl::take_locked(const ObjectId& id, Object& object) {
  Found found;
  if (!index_.find(id, found)) return false;
  if (found.expires_ns != 0 && found.expires_ns <= monotonic_ns()) return false;
  const std::uint64_t bytes = found.data_bytes + found.metadata_bytes;
  if (bytes > segment_.size() || found.offset > segment_.size() - bytes) return false;
  auto* slot_of = reinterpret_cast<std::uint32_t*>(slot_of_.data());
  const std::uint64_t number = object_number(found.version, found.entry);
  Slot* slots = control().slots;
  std::uint32_t slot = slot_of[found.entry] - 1;
  if (slot >= slots_used_ || slots[slot].object.load(std::memory_order_relaxed) != number) {
    slot = free_slot_locked();
    if (slot == kSlots) return false;
    slots[slot].object.store(number, std::memory_order_relaxed);
    slot_of[found.entry] = slot + 1;
  }
  Slot& mine = slots[slot];
  const std::uint32_t count = mine.count.load(std::memory_order_relaxed);
  mine.uses.store(mine.uses.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  mine.count.store(count + 1, std::memory_order_relaxed);
  if (count == 0) {
    // seq_cst: either the store sees the slot, or this thread sees its mark; pairs with the fences
    // in Objects::evict and sweep.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  if (index_.entry(found.entry).version.load(std::memory_order_relaxed) != found.version) {
    mine.count.store(count, std::memory_order_relaxed);
    return false;
  }
  object.store_ = this;
  object.slot_ = slot;
  const std::byte* data = segment_.data() + found.offset;
  object.data_ = {data, found.data_bytes};
  object.metadata_ = {data + found.data_bytes, found.metadata_bytes};
  return true;
}

bool ObjectStoreImpl::take(const ObjectId& id, Object& object) {
  if (fork_mark_.is_child()) return false;
  const std::lock_guard lock(mutex_);
  return take_locked(id, object);
}

bool ObjectStoreImpl::contains(const ObjectId& id) {
  if (fork_mark_.is_child()) return false;
  Found found;
  if (index_.find(id, found) && (found.expires_ns == 0 || found.expires_ns > monotonic_ns()))
    return true;
  std::uint32_t num_here = 0;
  return wait_for({&id, 1}, 1, 0, false, num_here).ok();
}

Status ObjectStoreImpl::wait_for(std::span<const ObjectId> ids, std::size_t least,
                                 std::int64_t timeout_ms, bool fetches, std::uint32_t& num_here,
                                 bool* lacks_room) {
  num_here = 0;
  if (ids.size() > kMostIds)
    return {Code::bad_argument, "more than 65536 objects are waited for in one call"};
  Room room;
  std::uint64_t bytes = 0;
  for (const ObjectId& id : ids) bytes += 1 + id.size;
  if (Status status = take_room(bytes, room); !status) return status;
  std::byte* to = room.memory;
  for (const ObjectId& id : ids) to = write_id(to, id);
  Request request{};
  request.bytes = bytes;
  request.op = Op::wait;
  request.id = ids.front();
  request.flags = fetches ? std::uint32_t{kFlagFetch} : 0;
  request.extent = room.extent;
  request.extent_offset = room.offset;
  request.count = static_cast<std::uint32_t>(ids.size());
  request.least = static_cast<std::uint32_t>(least);
  request.timeout_ms = timeout_ms;
  Completion completion{};
  Status status = call(request, completion);
  num_here = completion.count;
  give_room(room, completion);
  // The answer does not name which of several objects finds no room.
  const bool finds_none = completion.reason == Reason::no_room_here;
  if (lacks_room != nullptr) *lacks_room = finds_none;
  if (finds_none && ids.size() > 1)
    return {status.code(), "of " + std::to_string(ids.size()) + " objects, the first of them " +
                               ids.front().text() +
                               ", one is on another host and finds no room here in time: all "
                               "objects are referenced, pinned or being created"};
  return status;
}

Status ObjectStoreImpl::get(std::span<const ObjectId> ids, std::span<Object> objects,
                            std::int64_t timeout_ms) {
  if (objects.size() < ids.size())
    return {Code::bad_argument, "get of " + std::to_string(ids.size()) + " objects into " +
                                    std::to_string(objects.size())};
  for (Object& object : objects) object.release();
  const std::uint64_t begin_ns = monotonic_ns();
  std::vector<ObjectId> missing;
  Status status;
  bool lacks_room = false;
  for (int tries = 0;; ++tries) {
    missing.clear();
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (!objects[i] && !take(ids[i], objects[i]) && missing.size() < kMostIds)
        missing.push_back(ids[i]);
    if (missing.empty()) return Code::ok;
    if (!status) break;
    std::int64_t left = timeout_ms;
    if (timeout_ms > 0) {
      left -= static_cast<std::int64_t>((monotonic_ns() - begin_ns) / 1'000'000);
      if (left <= 0) {
        status = Code::timed_out;
        break;
      }
    }
    // It was here and went again before it was taken: that can go on for as long as others put.
    if (left == 0 && tries > 3) {
      status = {Code::timed_out, "object " + missing.front().text() + " goes as soon as it comes"};
      break;
    }
    std::uint32_t num_here;
    status = wait_for(missing, missing.size(), left, true, num_here, &lacks_room);
  }
  if (timeout_ms == 0 && status.code() == Code::timed_out)
    return {Code::not_found, "object " + missing.front().text() + " is not in the store"};
  if (status.code() == Code::timed_out && !lacks_room)
    return {Code::timed_out,
            "object " + missing.front().text() + " did not come in time" +
                (missing.size() > 1 ? ", nor did " + std::to_string(missing.size() - 1) + " more"
                                    : "")};
  return status;
}

Status ObjectStoreImpl::wait(std::span<const ObjectId> ids, std::size_t least,
                             std::int64_t timeout_ms, bool fetches, std::vector<bool>& is_here) {
  is_here.assign(ids.size(), false);
  if (ids.empty() || least == 0) return Code::ok;
  std::uint32_t num_here;
  Status status = wait_for(ids, std::min(least, ids.size()), timeout_ms, fetches, num_here);
  if (!status && status.code() != Code::timed_out) return status;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Found found;
    is_here[i] = index_.find(ids[i], found) || (index_.header().spills != 0 && contains(ids[i]));
  }
  return status;
}

Status ObjectStoreImpl::get_async(const ObjectId& id, ObjectCall& call, std::int64_t timeout_ms) {
  if (Status status = check_process(); !status) return status;
  const std::lock_guard lock(mutex_);
  if (is_lost_) return has_ended();
  call.id_ = id;
  call.extent_bytes_ = 0;
  call.status_ = Code::ok;
  Found found;
  if (index_.find(id, found)) {
    call.is_done_.store(true, std::memory_order_relaxed);
    return Code::ok;
  }
  const std::uint64_t bytes = 1 + id.size;
  const auto offset = extents_[0].space.allocate(bytes);
  if (!offset || num_under_way_ == kCalls) {
    if (offset) extents_[0].space.free(*offset, bytes);
    return Code::again;
  }
  call.extent_ = 0;
  call.extent_offset_ = *offset;
  call.extent_bytes_ = bytes;
  call.is_done_.store(false, std::memory_order_relaxed);
  write_id(extents_[0].memory.data() + *offset, id);
  Request request{};
  request.op = Op::wait;
  request.id = id;
  request.flags = kFlagFetch;
  request.extent_offset = *offset;
  request.bytes = bytes;
  request.count = request.least = 1;
  request.timeout_ms = timeout_ms;
  submit_locked(request, &call);
  return Code::ok;
}

}  // namespace weft
