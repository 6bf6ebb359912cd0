// The public face of a client, and the calls that only query.
#include <algorithm>
#include <cstring>

#include "impl.hpp"

namespace weft {

using namespace objstore;

Status ObjectStoreImpl::simple(Op op, const ObjectId& id) {
  Request request{};
  request.op = op;
  request.id = id;
  Completion completion{};
  return call(request, completion);
}

Status ObjectStoreImpl::subscribe() { return simple(Op::subscribe, {}); }

Status ObjectStoreImpl::list(std::vector<ObjectEntry>& objects) {
  objects.clear();
  Room room;
  if (Status status = take_room(kMostListed * sizeof(ListedObject), room); !status) return status;
  Request request{};
  request.op = Op::list;
  request.extent = room.extent;
  request.extent_offset = room.offset;
  request.bytes = room.bytes;
  Status status;
  Completion completion{};
  do {
    if (status = call(request, completion); !status) break;
    for (std::uint32_t i = 0; i < std::min(completion.count, kMostListed); ++i) {
      ListedObject listed;
      std::memcpy(&listed, room.memory + i * sizeof listed, sizeof listed);
      objects.push_back(
          {listed.id, listed.data_bytes, listed.metadata_bytes, (listed.flags & kListedPinned) != 0,
           (listed.flags & kListedReferenced) != 0, (listed.flags & kListedSpilled) != 0});
    }
    request.cursor = completion.value;
  } while (request.cursor != 0);
  give_room(room, completion);
  return status;
}

Status ObjectStoreImpl::status(std::string& json) {
  Room room;
  if (Status status = take_room(128 << 10, room); !status) return status;
  Request request{};
  request.op = Op::status;
  request.extent = room.extent;
  request.extent_offset = room.offset;
  request.bytes = room.bytes;
  Completion completion{};
  Status status = call(request, completion);
  if (status)
    json.assign(reinterpret_cast<const char*>(room.memory),
                std::min<std::uint64_t>(completion.value, room.bytes));
  give_room(room, completion);
  return status;
}

// --- The facade ---

ObjectStore::ObjectStore(const ObjectStoreSettings& settings)
    : impl_(std::make_unique<ObjectStoreImpl>(settings)) {}
ObjectStore::~ObjectStore() = default;

bool ObjectStore::contains(const ObjectId& id) { return impl_->contains(id); }
Status ObjectStore::create(const ObjectId& id, std::uint64_t data_bytes,
                           std::uint32_t metadata_bytes, ObjectBuffer& buffer,
                           const ObjectOptions& options) {
  return impl_->create(id, data_bytes, metadata_bytes, buffer, options);
}
Status ObjectStore::seal(ObjectBuffer& buffer) { return impl_->seal(buffer); }
void ObjectStore::abort(ObjectBuffer& buffer) { impl_->abort(buffer); }
Status ObjectStore::put(const ObjectId& id, std::span<const std::byte> data,
                        std::span<const std::byte> metadata, const ObjectOptions& options) {
  return impl_->put(id, data, metadata, options);
}
Status ObjectStore::get(const ObjectId& id, Object& object, std::int64_t timeout_ms) {
  object.release();
  if (impl_->take(id, object)) return Code::ok;
  return impl_->get({&id, 1}, {&object, 1}, timeout_ms);
}
Status ObjectStore::get(std::span<const ObjectId> ids, std::span<Object> objects,
                        std::int64_t timeout_ms) {
  return impl_->get(ids, objects, timeout_ms);
}
Status ObjectStore::get_into(const ObjectId& id, std::uint64_t offset, std::span<std::byte> into,
                             std::uint64_t& data_bytes, std::int64_t timeout_ms) {
  return impl_->get_into(id, offset, into, data_bytes, timeout_ms);
}
Status ObjectStore::allocate(std::uint64_t bytes, ObjectMemory& memory) {
  return impl_->allocate(bytes, memory);
}
Status ObjectStore::push(const ObjectId& id, std::span<const std::string> hosts,
                         std::vector<ObjectPush>& pushes, std::int64_t timeout_ms) {
  return impl_->push(id, hosts, pushes, timeout_ms);
}
Status ObjectStore::erase(const ObjectId& id) { return impl_->simple(Op::erase, id); }
Status ObjectStore::pin(const ObjectId& id) { return impl_->simple(Op::pin, id); }
Status ObjectStore::unpin(const ObjectId& id) { return impl_->simple(Op::unpin, id); }
Status ObjectStore::wait(std::span<const ObjectId> ids, std::size_t least, std::int64_t timeout_ms,
                         std::vector<bool>& is_here, bool fetches) {
  return impl_->wait(ids, least, timeout_ms, fetches, is_here);
}
Status ObjectStore::fetch(std::span<const ObjectId> ids, std::int64_t timeout_ms) {
  std::vector<bool> is_here;
  return impl_->wait(ids, ids.size(), timeout_ms, true, is_here);
}
Status ObjectStore::list(std::vector<ObjectEntry>& objects) { return impl_->list(objects); }
Status ObjectStore::status(std::string& json) { return impl_->status(json); }
Status ObjectStore::subscribe() { return impl_->subscribe(); }
bool ObjectStore::next_event(ObjectEntry& event, std::int64_t timeout_ms, std::uint64_t* num_lost) {
  return impl_->next_event(event, timeout_ms, num_lost);
}
Status ObjectStore::put_async(const ObjectId& id, std::span<const std::byte> data, ObjectCall& call,
                              const ObjectOptions& options) {
  return impl_->put_async(id, data, call, options);
}
Status ObjectStore::get_async(const ObjectId& id, ObjectCall& call, std::int64_t timeout_ms) {
  return impl_->get_async(id, call, timeout_ms);
}
void ObjectStore::set_interrupt(int (*is_interrupted)()) noexcept {
  impl_->set_interrupt(is_interrupted);
}
const int* ObjectStore::interrupts() const noexcept { return impl_->interrupts(); }
int ObjectStore::event_fd() const noexcept { return impl_->event_fd(); }
bool ObjectStore::arm() { return impl_->arm(); }
bool ObjectStore::progress() { return impl_->progress(); }
Status ObjectStore::wait(ObjectCall& call) { return impl_->wait(call); }

}  // namespace weft
