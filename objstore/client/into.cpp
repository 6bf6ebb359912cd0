// Ranges of objects into the program's own memory. From another host the store reads them into an
// extent: one that the program's memory lies in, as allocate() gave it, or one for the time of the
// call.
#include <algorithm>
#include <cstring>

#include "impl.hpp"
#include "objstore/shared/clock.hpp"

namespace weft {

using namespace objstore;

Status ObjectStoreImpl::allocate(std::uint64_t bytes, ObjectMemory& memory) {
  memory = ObjectMemory{};
  Room room;
  if (Status status = take_room(bytes, room); !status)
    return {status.code(),
            std::to_string(bytes) + " bytes of memory for objects: " + status.text()};
  memory.store_ = this;
  memory.memory_ = room.memory;
  memory.bytes_ = bytes;
  memory.extent_ = room.extent;
  memory.extent_offset_ = room.offset;
  return Code::ok;
}

void ObjectStoreImpl::free(ObjectMemory& memory) noexcept {
  give_room({memory.extent_, memory.extent_offset_, memory.bytes_, nullptr});
}

ObjectMemory::~ObjectMemory() {
  if (store_ != nullptr) store_->free(*this);
}

// The part of an extent that the memory lies in; false: in none.
bool ObjectStoreImpl::room_of(std::span<std::byte> memory, Room& room) {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < kMaxExtents; ++i) {
    const Extent& extent = extents_[i];
    if (!extent.is_there) continue;
    const auto offset = static_cast<std::uint64_t>(memory.data() - extent.memory.data());
    if (memory.data() < extent.memory.data() || offset > extent.memory.size() ||
        memory.size() > extent.memory.size() - offset)
      continue;
    room = {i, offset, memory.size(), memory.data()};
    return true;
  }
  return false;
}

Status ObjectStoreImpl::check_range(const ObjectId& id, std::uint64_t offset,
                                    std::uint64_t data_bytes) {
  if (offset <= data_bytes) return Code::ok;
  return {Code::bad_argument, "object " + id.text() + " has " + std::to_string(data_bytes) +
                                  " bytes of data, so none from offset " + std::to_string(offset) +
                                  " on"};
}

bool ObjectStoreImpl::copy_from_here(const ObjectId& id, std::uint64_t offset,
                                     std::span<std::byte> into, std::uint64_t& data_bytes) {
  Object object;
  if (!take(id, object)) return false;
  const auto data = object.data();
  data_bytes = data.size();
  const std::uint64_t begin = std::min<std::uint64_t>(offset, data.size());
  const std::size_t bytes = std::min<std::size_t>(into.size(), data.size() - begin);
  if (bytes != 0) std::memcpy(into.data(), data.data() + begin, bytes);
  return true;
}

Status ObjectStoreImpl::get_into(const ObjectId& id, std::uint64_t offset,
                                 std::span<std::byte> into, std::uint64_t& data_bytes,
                                 std::int64_t timeout_ms) {
  data_bytes = 0;
  if (Status status = check_process(); !status) return status;
  // Numbers below zero that were made unsigned.
  if (offset > std::uint64_t{INT64_MAX} || into.size() > std::uint64_t{INT64_MAX})
    return {Code::bad_argument, "a range of object " + id.text() + " begins at " +
                                    std::to_string(static_cast<std::int64_t>(offset)) +
                                    " and has " +
                                    std::to_string(static_cast<std::int64_t>(into.size())) +
                                    " bytes; both are 0 or more"};
  Room room;
  bool is_ours = false, is_answered = true;
  Status status;
  const std::uint64_t begin_ns = monotonic_ns();
  for (int tries = 0;; ++tries) {
    if (copy_from_here(id, offset, into, data_bytes)) {
      status = check_range(id, offset, data_bytes);
      break;
    }
    if (room.memory == nullptr && !room_of(into, room)) {
      if (status = take_room(into.size(), room); !status)
        return {status.code(), "object " + id.text() + ": " + status.text()};
      is_ours = true;
    }
    Request request{};
    request.op = Op::read_into;
    request.id = id;
    request.extent = room.extent;
    request.extent_offset = room.offset;
    request.bytes = into.size();
    request.object_offset = offset;
    request.timeout_ms = left_ms(timeout_ms, begin_ns);
    Completion completion{};
    status = call(request, completion);
    // The store may still write for a call that it has not answered.
    is_answered = completion.tag != kUnanswered;
    // It came meanwhile, and may go again before it is taken.
    if (completion.reason == Reason::exists && (request.timeout_ms != 0 || tries < 3)) continue;
    data_bytes = completion.value;
    if (status) status = check_range(id, offset, data_bytes);
    if (status && is_ours && !into.empty() && offset < data_bytes)
      std::memcpy(into.data(), room.memory,
                  std::min<std::uint64_t>(into.size(), data_bytes - offset));
    break;
  }
  if (is_ours && is_answered) give_room(room);
  if (status.code() == Code::timed_out && timeout_ms == 0)
    return {Code::not_found, "object " + id.text() + " is not in the store"};
  return status;
}

}  // namespace weft
