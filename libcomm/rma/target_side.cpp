#include "rma/target_side.hpp"

#include <algorithm>
#include <utility>

#include "base/shortage.hpp"
#include "weft/copy.hpp"

namespace weft::transport {

namespace {

RemoteRange behind(const RemoteRange& range, std::size_t bytes) {
  return {range.key, range.address + bytes, range.bytes - bytes,
          range.room - std::min<std::uint64_t>(range.room, bytes)};
}

}  // namespace

bool TargetSide::on_message(Kind kind, fabric::Bytes bytes, AccessRequest*& ended, Code& code) {
  MessageReader with{bytes};
  switch (kind) {
    case Kind::put:
      return with(AccessMessage{}, [&](auto& m) { return on_put(m, with.data); });
    case Kind::get:
      return with(AccessMessage{}, [&](auto& m) { return on_get(m); });
    case Kind::atomic:
      return with(AtomicMessage{}, [&](auto& m) { return on_atomic(m); });
    case Kind::data:
      return with(Head{}, [&](auto& m) { return on_data(m, with.data, ended); });
    case Kind::done:
      return with(DoneMessage{}, [&](auto& m) { return on_done(m, ended, code); });
    default:
      return false;
  }
}

// The initiator's side.

AccessRequest* TargetSide::find(std::uint32_t id) {
  AccessRequest** found = asked_.find(id);
  return found != nullptr ? *found : nullptr;
}

void TargetSide::drop(AccessRequest& request) {
  if (request.id == 0) return;
  asked_.remove(std::exchange(request.id, 0));
  request.is_asked = false;
}

Code TargetSide::post(AccessRequest& request, const RemoteRange& range) {
  if (request.id == 0) {
    if (asked_.size() == kMaxAsked) return Code::again;
    const Code code = or_no_memory([&] { asked_.make_room(); });
    if (code != Code::ok) return code;
    request.id = asked_.add(&request);
  }
  Code code = request.refused;
  if (is_atomic(request.access)) {
    AtomicMessage message{{.kind = Kind::atomic, .id = request.id},
                          range,
                          request.access == Access::cas,
                          request.operand,
                          request.compare};
    code = link_.post(message, sizeof message, {});
  } else {
    const bool is_get = request.access == Access::get;
    AccessMessage message{{.kind = is_get ? Kind::get : Kind::put, .id = request.id},
                          behind(range, request.moved)};
    if (is_get) {
      code = link_.send_once(message, sizeof message, {});
    } else {
      const std::size_t most = link_.endpoint()->limits().message_max - sizeof message;
      while (code == Code::ok) {
        const std::size_t part = std::min<std::size_t>(message.range.bytes, most);
        code = link_.post(message, sizeof message, {request.local + request.moved, part});
        if (code != Code::ok) break;
        request.moved += part;
        message.range = behind(message.range, part);
        if (message.range.bytes == 0) break;
      }
    }
  }
  request.is_asked = code == Code::ok;
  if (code == Code::peer_lost) return Code::again;  // the end of its link is reported next
  if (code != Code::ok && code != Code::again) drop(request);
  return code;
}

bool TargetSide::on_data(const Head& message, fabric::Bytes data, AccessRequest*& ended) {
  AccessRequest* request = find(message.id);
  if (request == nullptr) return true;  // it was given up
  if (request->access != Access::get || !request->is_asked || data.empty() ||
      data.size() > request->bytes - request->moved)
    return false;
  weft::detail::copy(request->local + request->moved, data.data(), data.size());
  request->moved += data.size();
  if (request->moved < request->bytes) return true;
  drop(*request);
  ended = request;
  return true;
}

bool TargetSide::on_done(const DoneMessage& message, AccessRequest*& ended, Code& code) {
  AccessRequest* request = find(message.id);
  if (request == nullptr) return true;  // a further answer to a put in pieces, or it was given up
  code = message.code == 0                                                ? Code::ok
         : message.code == static_cast<std::uint32_t>(Code::bad_argument) ? Code::bad_argument
         : message.code == static_cast<std::uint32_t>(Code::no_memory)    ? Code::no_memory
                                                                          : Code::not_permitted;
  if (!request->is_asked) {
    if (request->access == Access::get) return true;  // of its last link: it is asked again
    if (is_atomic(request->access) || code == Code::ok) return false;
    request->refused = code;
    return true;
  }
  if (request->access == Access::get && code == Code::ok && request->moved < request->bytes)
    return false;
  request->previous = message.previous;
  drop(*request);
  ended = request;
  return true;
}

// The target side.

void TargetSide::send_done(std::uint32_t id, Code code, std::uint64_t previous) {
  DoneMessage message{
      {.kind = Kind::done, .id = id}, static_cast<std::uint32_t>(code), 0, previous};
  link_.post_control(message, sizeof message);
}

// Every piece is checked together with all that is still to come, so that a put beyond
// the memory is refused at its first piece.
bool TargetSide::on_put(const AccessMessage& message, fabric::Bytes data) {
  if (data.size() > message.range.bytes || (data.empty() && message.range.bytes > 0)) return false;
  Code code = Code::ok;
  std::byte* at = memory_.find_shared(message.range, fabric::kWrite, code);
  if (at != nullptr) fabric::store(at, data);
  if (at == nullptr || data.size() == message.range.bytes) send_done(message.id, code);
  return true;
}

// The owner's own atomics are the processor's too, so that all are atomic against each other.
bool TargetSide::on_atomic(const AtomicMessage& message) {
  if (message.range.bytes != sizeof(std::uint64_t)) return false;
  Code code = Code::ok;
  std::uint64_t previous = 0;
  std::byte* at = memory_.find_shared(message.range, fabric::kAtomic, code);
  if (at != nullptr && reinterpret_cast<std::uintptr_t>(at) % sizeof(std::uint64_t) != 0)
    code = Code::bad_argument;  // registered memory may begin anywhere
  if (code == Code::ok)
    previous =
        fabric::apply(fabric::Atomic{message.is_swap != 0}, at, message.operand, message.compare);
  send_done(message.id, code, previous);
  return true;
}

bool TargetSide::on_get(const AccessMessage& message) {
  // An end that was sent over the last link may let the asker ask for another one early.
  if (answers_.size() >= 2 * kMaxAsked) return false;
  Answer answer{message.id, message.range};
  // An answer that finds room at once takes no memory.
  if (answers_.empty() && send(answer)) return true;
  const Code code = or_no_memory([&] { answers_.push_back(answer); });
  if (code != Code::ok) send_done(answer.id, code);
  memory_.make_busy();
  return true;
}

bool TargetSide::pump() {
  std::size_t num_sent = 0;
  while (num_sent < answers_.size() && send(answers_[num_sent])) ++num_sent;
  answers_.erase(answers_.begin(), answers_.begin() + static_cast<std::ptrdiff_t>(num_sent));
  return answers_.empty();
}

// False: there is no room for all of it.
bool TargetSide::send(Answer& answer) {
  Code code = Code::ok;
  // Memory that was unshared meanwhile is refused.
  const std::byte* at = memory_.find_shared(answer.rest, fabric::kRead, code);
  if (at == nullptr || answer.rest.bytes == 0) {
    send_done(answer.id, code);
    return true;
  }
  Head message{.kind = Kind::data, .id = answer.id};
  const std::size_t most = link_.endpoint()->limits().message_max - sizeof message;
  while (answer.rest.bytes > 0) {
    const std::size_t part = std::min<std::size_t>(answer.rest.bytes, most);
    fabric::WorkRequest* pinned = memory_.pin(answer.rest, part);
    if (link_.send_once(message, sizeof message, {at, part}, pinned) != Code::ok) {
      if (pinned != nullptr) pinned->done(*pinned, Code::cancelled);
      return false;
    }
    at += part;
    answer.rest = behind(answer.rest, part);
  }
  return true;
}

}  // namespace weft::transport
