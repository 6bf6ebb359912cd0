// Creating objects: in an extent of the client's own, which the store copies when they are sealed.
#include <algorithm>
#include <cstring>

#include "impl.hpp"
#include "objstore/shared/clock.hpp"

namespace weft {

using namespace objstore;

namespace {

// A put of more goes in pieces, which the store copies while the client writes the next.
constexpr std::uint64_t kWholePut = 128 << 10, kPutPiece = 128 << 10;
constexpr std::size_t kPiecesUnderWay = 3;
// An idle extent larger than this is given back at once.
constexpr std::uint64_t kKeptExtent = 64 << 20;

std::uint32_t flags_of(const ObjectOptions& options) {
  return (options.is_pinned ? std::uint32_t{kFlagPin} : 0) |
         (options.is_first ? std::uint32_t{kFlagFirst} : 0);
}

}  // namespace

Status ObjectStoreImpl::take_room(std::uint64_t bytes, Room& room) {
  if (Status status = check_process(); !status) return status;
  // A number below zero is one of these, too; more would wrap when it is rounded.
  if (bytes > std::uint64_t{INT64_MAX})
    return error_of(Op::create, {}, static_cast<std::uint32_t>(Code::no_memory), Reason::too_large);
  if (find_room(bytes, room)) return Code::ok;
  // Threads that find none at once would ask the store for more extents than a client may have.
  const std::lock_guard one_at_a_time(growth_mutex_);
  if (find_room(bytes, room)) return Code::ok;
  return more_extent(bytes, room);
}

bool ObjectStoreImpl::find_room(std::uint64_t bytes, Room& room) {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < kMaxExtents; ++i) {
    Extent& extent = extents_[i];
    if (!extent.is_there) continue;
    const auto offset = extent.space.allocate(bytes);
    if (!offset) continue;
    room = {i, *offset, bytes, extent.memory.data() + *offset};
    return true;
  }
  return false;
}

void ObjectStoreImpl::give_room(const Room& room) noexcept {
  if (fork_mark_.is_child()) return;
  const std::lock_guard lock(mutex_);
  Extent& extent = extents_[room.extent];
  extent.space.free(room.offset, room.bytes);
  if (room.extent == 0 || extent.space.free_bytes() != extent.memory.size() || is_lost_) return;
  // One idle extent is kept for the next object.
  const bool is_spare = extent.memory.size() > kKeptExtent ||
                        std::any_of(extents_.begin() + 1, extents_.end(), [&](const Extent& other) {
                          return &other != &extent && other.is_there &&
                                 other.space.free_bytes() == other.memory.size();
                        });
  if (!is_spare) return;
  Request request{};
  request.op = Op::drop_extent;
  request.extent = room.extent;
  if (!submit_locked(request, nullptr)) return;
  pending_[request.tag].is_left = true;
  extent = Extent{};
}

Status ObjectStoreImpl::create(const ObjectId& id, std::uint64_t data_bytes,
                               std::uint32_t metadata_bytes, ObjectBuffer& buffer,
                               const ObjectOptions& options) {
  abort(buffer);
  Request request{};
  request.op = Op::create;
  request.id = id;
  request.data_bytes = data_bytes;
  request.metadata_bytes = metadata_bytes;
  request.timeout_ms = options.timeout_ms;
  Completion completion{};
  if (Status status = call(request, completion); !status) return status;
  Room room;
  if (Status status = take_room(data_bytes + metadata_bytes, room); !status) {
    request.op = Op::abort;
    [[maybe_unused]] const Status aborted = call(request, completion);
    return {status.code(), "object " + id.text() + ": " + status.text()};
  }
  buffer.store_ = this;
  buffer.id_ = id;
  buffer.memory_ = room.memory;
  buffer.data_bytes_ = data_bytes;
  buffer.metadata_bytes_ = metadata_bytes;
  buffer.extent_ = room.extent;
  buffer.extent_offset_ = room.offset;
  buffer.options_ = options;
  return Code::ok;
}

Status ObjectStoreImpl::seal(ObjectBuffer& buffer) {
  if (buffer.store_ != this)
    return {Code::bad_argument, "seal: the buffer is empty, or of another store"};
  Request request{};
  request.op = Op::seal;
  request.id = buffer.id_;
  request.flags = flags_of(buffer.options_);
  request.ttl_ms = buffer.options_.ttl_ms;
  request.copies = buffer.options_.copies;
  request.timeout_ms = buffer.options_.timeout_ms;
  request.extent = buffer.extent_;
  request.extent_offset = buffer.extent_offset_;
  request.bytes = buffer.data_bytes_ + buffer.metadata_bytes_;
  Completion completion{};
  Status status = call(request, completion);
  give_room({buffer.extent_, buffer.extent_offset_, request.bytes, nullptr}, completion);
  buffer.store_ = nullptr;
  return status;
}

void ObjectStoreImpl::abort(ObjectBuffer& buffer) noexcept {
  if (buffer.store_ == nullptr) return;
  Request request{};
  request.op = Op::abort;
  request.id = buffer.id_;
  Completion completion{};
  [[maybe_unused]] const Status status = call(request, completion);
  give_room({buffer.extent_, buffer.extent_offset_, buffer.data_bytes_ + buffer.metadata_bytes_,
             nullptr});
  buffer.store_ = nullptr;
}

ObjectBuffer& ObjectBuffer::operator=(ObjectBuffer&& other) noexcept {
  if (this == &other) return *this;
  if (store_ != nullptr) store_->abort(*this);
  store_ = std::exchange(other.store_, nullptr);
  id_ = other.id_;
  memory_ = other.memory_;
  data_bytes_ = other.data_bytes_;
  metadata_bytes_ = other.metadata_bytes_;
  extent_ = other.extent_;
  extent_offset_ = other.extent_offset_;
  options_ = other.options_;
  return *this;
}

ObjectBuffer::~ObjectBuffer() {
  if (store_ != nullptr) store_->abort(*this);
}

Status ObjectStoreImpl::put(const ObjectId& id, std::span<const std::byte> data,
                            std::span<const std::byte> metadata, const ObjectOptions& options) {
  if (metadata.size() > UINT32_MAX)
    return {Code::bad_argument, "object " + id.text() + ": metadata of 4 GiB or more"};
  Request request{};
  request.op = Op::put;
  request.id = id;
  request.flags = flags_of(options);
  request.ttl_ms = options.ttl_ms;
  request.copies = options.copies;
  request.timeout_ms = options.timeout_ms;
  request.data_bytes = data.size();
  request.metadata_bytes = static_cast<std::uint32_t>(metadata.size());
  const std::size_t bytes = data.size() + metadata.size();
  if (bytes > kWholePut) return put_in_pieces(request, data, metadata);
  Room room;
  if (Status status = take_room(bytes, room); !status) return status;
  std::copy(data.begin(), data.end(), room.memory);
  std::copy(metadata.begin(), metadata.end(), room.memory + data.size());
  request.extent = room.extent;
  request.extent_offset = room.offset;
  Completion completion{};
  Status status = call(request, completion);
  give_room(room, completion);
  return status;
}

Status ObjectStoreImpl::put_in_pieces(Request& request, std::span<const std::byte> data,
                                      std::span<const std::byte> metadata) {
  Completion completion{};
  request.op = Op::create;
  if (Status status = call(request, completion); !status) return status;
  struct Piece {
    Room room;
    std::uint32_t tag;
  };
  std::array<Piece, kPiecesUnderWay> pieces;
  std::size_t num_sent = 0, num_done = 0;
  Status status;
  const auto await_eldest = [&] {
    const Piece& piece = pieces[num_done++ % kPiecesUnderWay];
    completion.tag = kUnanswered;
    Status ended = finish(piece.tag, monotonic_ns() + 30'000'000'000, completion);
    if (ended) ended = error_of(Op::write, request.id, completion.code, completion.reason);
    give_room(piece.room, completion);
    if (status) status = ended;
  };
  const std::uint64_t total = data.size() + metadata.size();
  for (std::uint64_t offset = 0; offset < total && status;) {
    if (num_sent - num_done == kPiecesUnderWay) await_eldest();
    if (!status) break;
    // A piece is of the data or of the metadata.
    const auto from =
        offset < data.size() ? data.subspan(offset) : metadata.subspan(offset - data.size());
    const std::uint64_t length = std::min<std::uint64_t>(kPutPiece, from.size());
    Piece piece{};
    if (status = take_room(length, piece.room); !status) break;
    std::memcpy(piece.room.memory, from.data(), length);
    Request write{};
    write.op = Op::write;
    write.id = request.id;
    write.extent = piece.room.extent;
    write.extent_offset = piece.room.offset;
    write.bytes = length;
    write.object_offset = offset;
    if (status = start(write, piece.tag, nullptr, monotonic_ns() + 30'000'000'000); !status) {
      give_room(piece.room);
      break;
    }
    pieces[num_sent++ % kPiecesUnderWay] = piece;
    offset += length;
  }
  while (num_done != num_sent) await_eldest();
  Request last = request;
  last.op = status ? Op::seal : Op::abort;
  last.bytes = 0;
  const Status ended = call(last, completion);
  return status ? ended : status;
}

Status ObjectStoreImpl::put_async(const ObjectId& id, std::span<const std::byte> data,
                                  ObjectCall& call, const ObjectOptions& options) {
  if (Status status = check_process(); !status) return status;
  const std::lock_guard lock(mutex_);
  if (is_lost_) return has_ended();
  if (num_under_way_ == kCalls) return Code::again;
  const auto offset = extents_[0].space.allocate(data.size());
  if (!offset) return Code::again;
  std::copy(data.begin(), data.end(), extents_[0].memory.data() + *offset);
  call.id_ = id;
  call.is_done_.store(false, std::memory_order_relaxed);
  call.status_ = Code::ok;
  call.extent_ = 0;
  call.extent_offset_ = *offset;
  call.extent_bytes_ = std::max<std::size_t>(data.size(), 1);
  Request request{};
  request.op = Op::put;
  request.id = id;
  request.flags = flags_of(options);
  request.ttl_ms = options.ttl_ms;
  request.copies = options.copies;
  request.timeout_ms = options.timeout_ms;
  request.data_bytes = data.size();
  request.extent_offset = *offset;
  submit_locked(request, &call);
  return Code::ok;
}

}  // namespace weft
