// The calls of clients. Every number in a request is checked against what the server itself knows;
// contents of extents are copied before they are checked.
#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <string_view>

#include "objstore/shared/clock.hpp"
#include "server.hpp"

namespace weft::objstore {
namespace {

constexpr std::uint64_t kCopyPiece = 1 << 20;   // others are served between two of them
constexpr std::uint64_t kWriteMost = 16 << 20;  // of one write call
constexpr std::uint32_t kMostIds = 1 << 16;     // of one call
constexpr std::int64_t kConfirmMs = 5000;       // for the directory's answer
constexpr std::int64_t kRestoreMs = 20'000;     // for what is on disk

// Different ids out of so many, each a byte of its length and its bytes.
Outcome read_ids(std::span<const std::byte> from, std::uint32_t count, std::vector<ObjectId>& ids) {
  // A copy: the client can change it while it is checked.
  const std::vector<std::byte> text(from.begin(), from.end());
  std::vector<std::string_view> views;
  views.reserve(count);
  for (std::size_t at = 0; at < text.size();) {
    const auto size = static_cast<std::size_t>(text[at++]);
    if (size > text.size() - at || views.size() == count)
      return {Code::bad_argument, Reason::bad_request};
    if (size == 0) return {Code::bad_argument, Reason::bad_id};
    views.emplace_back(reinterpret_cast<const char*>(text.data()) + at, size);
    at += size;
  }
  if (views.size() != count) return {Code::bad_argument, Reason::bad_request};
  std::sort(views.begin(), views.end());
  views.erase(std::unique(views.begin(), views.end()), views.end());
  ids.resize(views.size());
  for (std::size_t i = 0; i < views.size(); ++i)
    if (!ObjectId::make(views[i], ids[i])) return {Code::internal};
  return {};
}

bool names_object(Op op) {
  switch (op) {
    case Op::put:
    case Op::create:
    case Op::write:
    case Op::seal:
    case Op::abort:
    case Op::erase:
    case Op::pin:
    case Op::unpin:
    case Op::read_into:
    case Op::push:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Server::carry_out(Client& client, const Request& request) {
  if (request.id.size == 0 && names_object(request.op))
    return complete(client, request.tag, {Code::bad_argument, Reason::bad_id});
  switch (request.op) {
    case Op::put:
    case Op::create:
      // In order of arrival: the first request gets room first.
      if (!room_waits_.empty() || !create(client, request)) {
        if (request.timeout_ms == 0)
          return complete(client, request.tag, {Code::no_memory, Reason::no_room});
        room_waits_.push_back({client.serial, request, deadline_after(request.timeout_ms)});
        objects_.index().header().wants_release.store(1, std::memory_order_relaxed);
      }
      return;
    case Op::write:
      return write(client, request);
    case Op::seal:
      return seal(client, request);
    case Op::abort: {
      const auto found = client.creating.find(request.id);
      if (found == client.creating.end())
        return complete(client, request.tag, {Code::not_found, Reason::not_creating});
      // A copy into it that is under way would write into memory of others.
      for (const Copy& copy : copies_)
        if (copy.entry == found->second)
          return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
      objects_.abort(found->second);
      client.creating.erase(found);
      room_may_have_come_ = true;
      return complete(client, request.tag, {});
    }
    case Op::wait:
      return wait(client, request);
    case Op::erase: {
      Outcome outcome = objects_.erase(request.id);
      room_may_have_come_ = true;
      // Only Remote knows whether other hosts have it.
      if (remote_ != nullptr && remote_->erased(request.id)) outcome = {};
      return complete(client, request.tag, outcome);
    }
    case Op::pin:
    case Op::unpin:
      return complete(client, request.tag, objects_.pin(request.id, request.op == Op::pin));
    case Op::list:
      return list(client, request);
    case Op::status: {
      std::byte* to = extent_bytes(client, request, request.bytes);
      if (to == nullptr)
        return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
      const std::string text = status_text();
      if (text.size() > request.bytes)
        return complete(client, request.tag, {Code::truncated}, text.size());
      std::memcpy(to, text.data(), text.size());
      return complete(client, request.tag, {}, text.size());
    }
    case Op::subscribe:
      client.is_subscribed = true;
      return complete(client, request.tag, {});
    case Op::read_into:
      return read_into(client, request);
    case Op::push:
      return push(client, request);
    case Op::cancel:
      cancel(client, request.count);
      return complete(client, request.tag, {});
    case Op::nudge:
      room_may_have_come_ = true;
      return complete(client, request.tag, {});
    case Op::drop_extent: {
      if (request.extent == 0 || request.extent >= kMaxExtents ||
          client.extents[request.extent].memory == nullptr)
        return complete(client, request.tag, {Code::bad_argument, Reason::no_extent});
      for (const Copy& copy : copies_)
        if (copy.client == client.serial && copy.request.extent == request.extent)
          return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
      for (const RoomWait& wait : room_waits_)
        if (wait.client == client.serial && wait.request.extent == request.extent)
          return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
      client.charged_bytes -= client.extents[request.extent].memory->size();
      client.extents[request.extent] = Extent{};
      return complete(client, request.tag, {});
    }
  }
  ++num_refused_;
  client.is_broken = true;
  broken_.push_back(client.serial);
}

// Gives up a call that waits. A running copy ends by itself, and soon.
void Server::cancel(Client& client, std::uint32_t tag) {
  const Outcome outcome{Code::cancelled, Reason::interrupted};
  const auto is_its = [&](std::uint32_t serial, std::uint32_t its) {
    return serial == client.serial && its == tag;
  };
  const auto waits_for_room =
      std::find_if(room_waits_.begin(), room_waits_.end(),
                   [&](const RoomWait& wait) { return is_its(wait.client, wait.request.tag); });
  if (waits_for_room != room_waits_.end()) {
    room_waits_.erase(waits_for_room);
    room_may_have_come_ = true;  // for the next one
    return complete(client, tag, outcome);
  }
  for (const auto& [number, wait] : waits_)
    if (is_its(wait.client, wait.tag)) return end_wait(number, outcome);
  for (const auto& [number, into] : intos_)
    if (is_its(into.client, into.tag)) return end_into(number, outcome);
  for (auto& [number, replication] : replications_)
    if (is_its(replication.client, replication.tag)) replication.deadline_ns = 0;
  for (auto& [number, confirm] : confirms_)
    if (is_its(confirm.client, confirm.request.tag)) confirm.deadline_ns = 0;
  for (auto& [number, push] : pushes_)
    if (is_its(push.client, push.request.tag)) push.deadline_ns = 0;
}

void Server::complete(Client& client, std::uint32_t tag, Outcome outcome, std::uint64_t value,
                      std::uint32_t count) {
  Control& control = client.control();
  control.completions[client.completed % kCalls] = {
      tag, static_cast<std::uint32_t>(outcome.code), outcome.reason, count, value, 0};
  ++client.completed;
  --client.under_way;
  // release: the completion; pairs with ObjectStore's take_completions.
  control.completed.store(client.completed, std::memory_order_release);
  ring(client);
}

// The `bytes` of the request's extent; null if they are not all within it.
std::byte* Server::extent_bytes(Client& client, const Request& request, std::uint64_t bytes) {
  if (request.extent >= kMaxExtents || client.extents[request.extent].memory == nullptr)
    return nullptr;
  const Mapping& memory = *client.extents[request.extent].memory;
  if (request.extent_offset > memory.size() || bytes > memory.size() - request.extent_offset)
    return nullptr;
  return memory.data() + request.extent_offset;
}

// create and put. False: there is no room now.
bool Server::create(Client& client, const Request& request) {
  const std::byte* from = nullptr;
  const std::uint64_t capacity = objects_.segment().capacity();
  if (request.data_bytes > capacity || request.metadata_bytes > capacity - request.data_bytes) {
    complete(client, request.tag, {Code::no_memory, Reason::too_large});
    return true;
  }
  const std::uint64_t bytes = request.data_bytes + request.metadata_bytes;
  if (request.op == Op::put && (from = extent_bytes(client, request, bytes)) == nullptr) {
    complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
    return true;
  }
  const std::uint64_t charge = Allocator::rounded(bytes);
  if (settings_.quota_bytes != 0 && client.charged_bytes + charge > settings_.quota_bytes) {
    complete(client, request.tag, {Code::no_memory, Reason::quota});
    return true;
  }
  std::uint32_t entry;
  const Outcome outcome =
      objects_.create(request.id, request.data_bytes, request.metadata_bytes, client.serial, entry);
  if (outcome.code == Code::again) return false;
  if (!outcome.ok()) {
    complete(client, request.tag, outcome);
    return true;
  }
  client.charged_bytes += charge;
  client.creating.emplace(request.id, entry);
  if (request.op == Op::create)
    complete(client, request.tag, {});
  else
    start_copy(client, request, entry, from);
  return true;
}

void Server::retry_creates() {
  if (!room_may_have_come_) return;
  room_may_have_come_ = false;
  if (room_waits_.empty()) return;
  const std::uint64_t now_ns = monotonic_ns();
  std::erase_if(room_waits_, [&](const RoomWait& wait) {
    if (wait.deadline_ns > now_ns) return false;
    complete(*clients_.at(wait.client), wait.request.tag, {Code::timed_out, Reason::no_room});
    return true;
  });
  while (!room_waits_.empty()) {
    const RoomWait wait = room_waits_.front();
    if (!create(*clients_.at(wait.client), wait.request)) break;
    room_waits_.pop_front();
  }
  if (room_waits_.empty())
    objects_.index().header().wants_release.store(0, std::memory_order_relaxed);
}

void Server::write(Client& client, const Request& request) {
  const auto found = client.creating.find(request.id);
  if (found == client.creating.end())
    return complete(client, request.tag, {Code::not_found, Reason::not_creating});
  const std::byte* from = extent_bytes(client, request, request.bytes);
  const std::uint64_t total = objects_.bytes_of(found->second);
  if (from == nullptr || request.bytes > kWriteMost || request.object_offset > total ||
      request.bytes > total - request.object_offset)
    return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
  std::memcpy(objects_.place(found->second) + request.object_offset, from, request.bytes);
  complete(client, request.tag, {});
}

void Server::seal(Client& client, const Request& request) {
  const auto found = client.creating.find(request.id);
  if (found == client.creating.end())
    return complete(client, request.tag, {Code::not_found, Reason::not_creating});
  for (const Copy& copy : copies_)
    if (copy.entry == found->second)
      return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
  if (request.bytes == 0) return finish_seal(client, request, found->second);
  const std::byte* from = extent_bytes(client, request, request.bytes);
  if (from == nullptr || request.bytes != objects_.bytes_of(found->second))
    return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
  start_copy(client, request, found->second, from);
}

// All bytes of an object from an extent, then seals it.
void Server::start_copy(Client& client, const Request& request, std::uint32_t entry,
                        const std::byte* from) {
  const std::uint64_t total = objects_.bytes_of(entry);
  if (total > kCopyPiece) {
    copies_.push_back({client.serial, request, entry, 0, total});
    return;
  }
  std::memcpy(objects_.place(entry), from, total);
  finish_seal(client, request, entry);
}

// One piece of the first long copy; those that wait take turns.
void Server::advance_copy() {
  Copy& copy = copies_.front();
  Client& client = *clients_.at(copy.client);
  const std::byte* from = extent_bytes(client, copy.request, copy.total);
  const std::uint64_t piece = std::min(kCopyPiece, copy.total - copy.done);
  std::memcpy(objects_.place(copy.entry) + copy.done, from + copy.done, piece);
  copy.done += piece;
  if (copy.done < copy.total) {
    copies_.splice(copies_.end(), copies_, copies_.begin());
    return;
  }
  const Copy done = copy;
  copies_.pop_front();
  finish_seal(client, done.request, done.entry);
}

void Server::finish_seal(Client& client, const Request& request, std::uint32_t entry) {
  client.creating.erase(request.id);
  const bool is_checked = (request.flags & kFlagFirst) != 0 && remote_ != nullptr;
  if (is_checked) {
    const std::uint64_t number = next_wait_++;
    confirms_.emplace(number, Confirm{client.serial, request, deadline_after(kConfirmMs)});
    remote_->confirm(number, request.id);
  }
  objects_.seal(entry, request.ttl_ms, (request.flags & kFlagPin) != 0);
  if (is_checked) return;
  if (request.copies > 1) return replicate(client, request);
  complete(client, request.tag, {});
}

void Server::wait(Client& client, const Request& request) {
  if (request.count == 0 || request.count > kMostIds || request.least == 0)
    return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
  const std::byte* from = extent_bytes(client, request, request.bytes);
  if (from == nullptr || request.bytes > request.count * sizeof(ObjectId))
    return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
  std::vector<ObjectId> ids;
  if (const Outcome outcome = read_ids({from, request.bytes}, request.count, ids); !outcome.ok())
    return complete(client, request.tag, outcome);
  const auto total = static_cast<std::uint32_t>(ids.size());
  const bool fetches = (request.flags & kFlagFetch) != 0;
  // To be on disk is to be here, but not enough to be taken.
  std::erase_if(ids, [&](const ObjectId& id) {
    return objects_.find_sealed(id) != kNoEntry || (!fetches && objects_.is_spilled(id));
  });
  const auto num_spilled = static_cast<std::uint32_t>(std::count_if(
      ids.begin(), ids.end(), [this](const ObjectId& id) { return objects_.is_spilled(id); }));
  const auto here = total - static_cast<std::uint32_t>(ids.size());
  const std::uint32_t least = std::min(request.least, total);
  waits_here_ += here;
  waits_missed_ += ids.size();
  if (here >= least) return complete(client, request.tag, {}, 0, here);
  std::int64_t timeout_ms = request.timeout_ms;
  if (timeout_ms == 0) {
    // A wait that does not fetch from others waits for the disk.
    if (here + num_spilled < least)
      return complete(client, request.tag, {Code::timed_out}, 0, here);
    timeout_ms = kRestoreMs;
  }
  const std::uint64_t deadline = deadline_after(timeout_ms);
  // The wait is recorded before the requests, so that it can be undone where memory ends.
  const std::uint64_t number = next_wait_++;
  const auto at = deadlines_.emplace(deadline, number);
  try {
    waits_.emplace(number, Wait{client.serial, request.tag, ids, here, least, fetches, at});
  } catch (const std::bad_alloc&) {
    deadlines_.erase(at);
    throw;
  }
  for (const ObjectId& id : ids) waiting_for_.emplace(id, number);
  if (!fetches) return;
  for (const ObjectId& id : ids) {
    if (objects_.is_spilled(id))
      restore(id);
    else if (remote_ != nullptr)
      remote_->wanted(id);
  }
}

void Server::list(Client& client, const Request& request) {
  std::byte* to = extent_bytes(client, request, request.bytes);
  if (to == nullptr || request.bytes < sizeof(ListedObject))
    return complete(client, request.tag, {Code::bad_argument, Reason::bad_request});
  std::vector<ListedObject> objects;
  const std::uint64_t cursor = objects_.list(
      request.cursor, std::min<std::uint64_t>(request.bytes / sizeof(ListedObject), kMostListed),
      objects);
  if (!objects.empty()) std::memcpy(to, objects.data(), objects.size() * sizeof(ListedObject));
  complete(client, request.tag, {}, cursor, static_cast<std::uint32_t>(objects.size()));
}

}  // namespace weft::objstore
