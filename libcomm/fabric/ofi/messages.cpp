// Messages: sent, held behind puts, received.
#include "fabric/ofi/messages.hpp"

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "fabric/ofi/endpoint_impl.hpp"

namespace weft::fabric::ofi {

// Buffers.

Status OfiEndpoint::add_buffers(std::size_t count, fid_ep* receives) {
  weft::Mapping memory;
  if (Status status = memory.map(count * buffer_bytes_); !status) return status;
  fid_mr* mr = nullptr;
  if (ep_->has_mode(FI_MR_LOCAL)) {
    make_room(mrs_);
    const std::uint64_t access =
        FI_SEND | FI_RECV | (one_sided_.puts ? FI_READ | FI_WRITE : std::uint64_t{0});
    if (Status status = register_for(memory.data(), memory.bytes(), access, mr); !status)
      return status;
    mrs_.push_back(mr);
  }
  std::byte* data = memory.data();
  more_memory_.push_back(std::move(memory));
  make_room(free_, buffers_.size() + count);  // giving back takes no memory
  for (std::size_t i = 0; i < count; ++i, data += buffer_bytes_) {
    Buffer& buffer = buffers_.emplace_back();
    buffer.data = data;
    buffer.mr = mr;
    if (receives != nullptr) {
      buffer.receives = receives;
      post_receive(buffer);
    } else {
      free_.push_back(&buffer);
    }
  }
  if (receives != nullptr) num_receives_ += count;
  return {};
}

// A peer that takes nothing keeps what is under way to it, and the provider keeps that even after
// the link's end. The other peers must not wait for it.
bool OfiEndpoint::need_send_buffer() {
  if (!free_.empty()) return true;
  if (buffers_.size() >= kMostBuffers) return false;
  return or_no_memory([&] { return add_buffers(kSendsOfLink, nullptr); }).ok();
}

void OfiEndpoint::post_receive(Buffer& buffer) {
  if (buffer.receives == &closed_ep_) [[unlikely]]
    return spare_receives_.push_back(&buffer);
  void* descriptor = buffer.mr != nullptr ? fi_mr_desc(buffer.mr) : nullptr;
  const ssize_t error = fi_recv(buffer.receives, buffer.data, buffer_bytes_, descriptor,
                                FI_ADDR_UNSPEC, &buffer.context);
  if (error != 0) log_line(LogLevel::error, -1, "ofi: fi_recv: {}", lib::error_text(error));
}

// Sending.

Code OfiEndpoint::post(OfiLink& link, Bytes head, Bytes body, WorkRequest* request) {
  if (head.size() + body.size() > limits_.message_max) return Code::bad_argument;
  std::lock_guard lock(mutex_);
  if (link.is_down) return Code::peer_lost;
  if (!link.is_up || link.num_sends >= kSendsOfLink) return Code::again;
  const bool waits = link.accesses->num_puts > 0 || link.held_first != nullptr;
  const Code code = waits ? hold(link, head, body, request)
                          : send(link, Kind::message, link.peer_token, head, body, request);
  if (code == Code::ok) ++link.num_sent;
  return code;
}

namespace {

void copy_to(std::byte* to, const Head& first, Bytes head, Bytes body) {
  std::memcpy(to, &first, sizeof first);
  if (!head.empty()) std::memcpy(to + sizeof first, head.data(), head.size());
  if (!body.empty()) std::memcpy(to + sizeof first + head.size(), body.data(), body.size());
}

void fill(Buffer& buffer, const Head& first, Bytes head, Bytes body, bool is_in_place) {
  copy_to(buffer.data, first, head, is_in_place ? Bytes() : body);
  buffer.body = is_in_place ? body : Bytes();
  buffer.filled = sizeof first + head.size() + (is_in_place ? 0 : body.size());
}

}  // namespace

Code OfiEndpoint::send(OfiLink& link, Kind kind, std::uint64_t token, Bytes head, Bytes body,
                       WorkRequest* request) {
  const std::size_t length = head.size() + body.size();
  const Head first{token, kind, link.num_sent, static_cast<std::uint32_t>(length)};
  if (sizeof first + length <= inject_max_ && request == nullptr) {
    std::byte on_stack[kMaxInject];
    copy_to(on_stack, first, head, body);
    const ssize_t error = fi_inject(link.ep, on_stack, sizeof first + length, link.peer);
    if (error == 0) return Code::ok;
    if (error == -FI_EAGAIN) return Code::again;
    take_down(link, Code::peer_lost);
    return Code::peer_lost;
  }
  if (!need_send_buffer()) return Code::again;
  Buffer& buffer = *free_.back();
  fill(buffer, first, head, body, request != nullptr);
  if (const Code code = post_send(link, buffer); code != Code::ok) return code;
  free_.pop_back();
  buffer.link = link.own_token;
  buffer.request = request;
  ++link.num_sends;
  return Code::ok;
}

Code OfiEndpoint::post_send(OfiLink& link, Buffer& buffer) {
  const iovec parts[] = {{buffer.data, buffer.filled},
                         {const_cast<std::byte*>(buffer.body.data()), buffer.body.size()}};
  void* descriptor = buffer.mr != nullptr ? fi_mr_desc(buffer.mr) : nullptr;
  fi_msg message{};
  message.msg_iov = parts;
  message.desc = buffer.mr != nullptr ? &descriptor : nullptr;
  message.iov_count = buffer.body.empty() ? 1 : 2;
  message.addr = link.peer;
  message.context = &buffer.context;
  const ssize_t error = fi_sendmsg(link.ep, &message, FI_COMPLETION);
  if (error == 0) return Code::ok;
  if (error == -FI_EAGAIN) return Code::again;
  take_down(link, Code::peer_lost);
  return Code::peer_lost;
}

// Keeps a message until the puts before it, and the messages that are held already, are there.
Code OfiEndpoint::hold(OfiLink& link, Bytes head, Bytes body, WorkRequest* request) {
  if (!need_send_buffer()) return Code::again;
  Buffer& buffer = *free_.back();
  free_.pop_back();
  const Head first{link.peer_token, Kind::message, link.num_sent,
                   static_cast<std::uint32_t>(head.size() + body.size())};
  fill(buffer, first, head, body, request != nullptr);
  buffer.link = link.own_token;
  buffer.request = request;
  buffer.num_puts_before = link.accesses->puts_posted;
  buffer.next = nullptr;
  (link.held_last != nullptr ? link.held_last->next : link.held_first) = &buffer;
  link.held_last = &buffer;
  ++link.num_sends;
  return Code::ok;
}

void OfiEndpoint::send_held(OfiLink& link) {
  const PostedAccess* eldest = link.accesses->first;
  while (eldest != nullptr && eldest->what != PostedAccess::What::put) eldest = eldest->after;
  const std::uint64_t num_there =
      eldest != nullptr ? eldest->put_number - 1 : link.accesses->puts_posted;
  while (link.held_first != nullptr && !link.is_down) {
    Buffer& buffer = *link.held_first;
    if (buffer.num_puts_before > num_there) return;
    const Code code = post_send(link, buffer);
    if (code == Code::again) is_stuck_ = may_hold_ = true;
    if (code != Code::ok) return;
    link.held_first = buffer.next;
    if (link.held_first == nullptr) link.held_last = nullptr;
  }
}

void OfiEndpoint::drop_held(std::uint64_t token, Code code, Lock& lock) {
  for (OfiLink* link; (link = find(token)) != nullptr && link->held_first != nullptr;) {
    Buffer& buffer = *link->held_first;
    link->held_first = buffer.next;
    if (link->held_first == nullptr) link->held_last = nullptr;
    --link->num_sends;
    free_.push_back(&buffer);
    WorkRequest* request = std::exchange(buffer.request, nullptr);
    if (request == nullptr) continue;
    lock.unlock();
    request->done(*request, code);
    lock.lock();
  }
}

// Takes the request of a body in place that this link has under way; null: none is left.
WorkRequest* OfiEndpoint::take_body_request(std::uint64_t link) {
  for (Buffer& buffer : buffers_)
    if (buffer.request != nullptr && buffer.link == link)
      return std::exchange(buffer.request, nullptr);
  return nullptr;
}

void OfiEndpoint::end_send(Buffer& buffer, bool is_good, Lock& lock) {
  WorkRequest* request = std::exchange(buffer.request, nullptr);
  free_.push_back(&buffer);
  if (OfiLink* link = find(buffer.link); link != nullptr) {
    --link->num_sends;
    if (!is_good) take_down(*link, Code::peer_lost);
  }
  if (request == nullptr) return;
  lock.unlock();
  request->done(*request, is_good ? Code::ok : Code::peer_lost);
  lock.lock();
}

// Receiving. The buffer goes back here, or with the event that shows it.
void OfiEndpoint::on_received(Buffer& buffer, std::size_t length, Events* events, Lock& lock) {
  Head head;
  bool is_shown = false;
  if (length >= sizeof head) {
    std::memcpy(&head, buffer.data, sizeof head);
    const Bytes bytes{buffer.data + sizeof head, length - sizeof head};
    if (head.length == bytes.size()) {
      const bool is_openers = head.kind == Kind::hello || head.kind == Kind::given_up;
      OfiLink* link = is_openers ? nullptr : find(head.token);
      if (head.kind == Kind::hello) {
        on_hello(head, bytes);
      } else if (link != nullptr && head.kind == Kind::accept && !link->is_up &&
                 bytes.size() == sizeof link->peer_token) {
        std::memcpy(&link->peer_token, bytes.data(), sizeof link->peer_token);
        link->is_up = true;
        events_.push_back({EventKind::up, link->own_token});
      } else if (head.kind == Kind::given_up) {
        on_given_up(head.token);
      } else if (link != nullptr && head.kind == Kind::closed) {
        take_down(*link, Code::peer_lost);
      } else if (link != nullptr && head.kind == Kind::message && link->is_up && !link->is_down) {
        if (head.sequence != link->num_received++) {
          take_down(*link, Code::peer_lost);
        } else if (events_.empty() && events != nullptr) {
          lock.unlock();
          events->on_message(*link, bytes);
          lock.lock();
        } else {
          // A message that is not yet delivered keeps its buffer: that is the back-pressure.
          events_.push_back({EventKind::message, link->own_token, Code::ok, {}, &buffer});
          is_shown = true;
          may_hold_ = true;
        }
      }
    }
  }
  if (!is_shown) post_receive(buffer);
}

}  // namespace weft::fabric::ofi
