#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/shortage.hpp"
#include "fabric/tcp/endpoint_impl.hpp"

namespace weft::fabric::tcp {
namespace {

constexpr int kMostReads = 4;  // of a link in a poll()
// Of a payload at once: the kernel tells the sender of its room when a read ends.
constexpr std::size_t kPlaceBytes = 128 << 10;
// A shorter put is gathered and then stored at once, so that words are written whole.
constexpr std::size_t kGather = 4096;

std::byte* at_address(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

// Reads into the place of the payload that is missing, and what follows it to `at`.
ssize_t TcpEndpoint::receive(TcpLink& link, std::byte* at, std::size_t& wanted) {
  if (link.missing == 0) {
    wanted = kReadBytes;
    return ::recv(link.socket.get(), at, wanted, MSG_DONTWAIT);
  }
  std::shared_lock lock(regions_.mutex, std::defer_lock);
  if (link.to == TcpLink::To::region) {
    lock.lock();
    if (!regions_.has(link.access.secret)) {
      link.to = TcpLink::To::nowhere;
      link.frame.code = Code::not_permitted;
    }
  }
  if (link.to == TcpLink::To::nowhere) {
    wanted = std::min(link.missing, kReadBytes);
    return ::recv(link.socket.get(), buffer_.data(), wanted, MSG_DONTWAIT);
  }
  const std::size_t bytes = std::min(link.missing, kPlaceBytes);
  const bool is_last = bytes == link.missing;
  const iovec parts[] = {{link.at, bytes}, {at, kReadBytes}};
  wanted = bytes + (is_last ? kReadBytes : 0);
  return ::readv(link.socket.get(), parts, is_last ? 2 : 1);
}

bool TcpEndpoint::read(Events& events, TcpLink& link) {
  bool any = false;
  for (int round = 0; round < kMostReads && !is_over(link); ++round) {
    // Frames are to lie aligned: the first follows the padding of a payload, or has begun already.
    std::byte* at = buffer_.data();
    const std::size_t num_carried = link.num_carried;
    if (num_carried > 0)
      std::memcpy(at, link.carried.data(), num_carried);
    else
      at += padding_of(link.padding);
    std::size_t wanted = 0;
    const ssize_t count = receive(link, at + num_carried, wanted);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    any = true;
    if (count <= 0) {
      take_down(events, link,
                count < 0 && errno == ECONNREFUSED ? Code::not_found : Code::peer_lost);
      break;
    }
    auto bytes = static_cast<std::size_t>(count);
    if (link.missing > 0) {
      const std::size_t some = std::min(bytes, link.missing);
      link.missing -= some;
      link.at += link.to == TcpLink::To::nowhere ? 0 : some;
      bytes -= some;
      if (link.missing == 0) end_payload(events, link);
    }
    link.num_carried = 0;
    if (bytes > 0) parse(events, link, at, num_carried + bytes);
    if (static_cast<std::size_t>(count) < wanted) break;  // there is no more now
  }
  if (link.has_answers && !is_over(link)) flush(link);
  return any;
}

void TcpEndpoint::parse(Events& events, TcpLink& link, std::byte* at, std::size_t bytes) {
  const std::size_t skipped = std::min(link.padding, bytes);
  link.padding -= skipped;
  at += skipped;
  bytes -= skipped;
  while (bytes > 0 && !is_over(link)) {
    Frame frame;
    std::size_t head = sizeof frame;
    if (bytes >= head) {
      std::memcpy(&frame, at, sizeof frame);
      if (has_access(frame.kind)) head += sizeof(Access);
    }
    if (bytes < head) {
      std::memcpy(link.carried.data(), at, bytes);
      link.num_carried = bytes;
      return;
    }
    if (check(link, frame) != Code::ok) return take_down(events, link, Code::corrupt);
    Access access{};
    if (head > sizeof frame) std::memcpy(&access, at + sizeof frame, sizeof access);
    at += head;
    bytes -= head;
    const std::size_t payload = payload_of(frame), all = payload + padding_of(payload);
    if (payload > bytes) {
      link.frame = frame;
      link.access = access;
      link.padding = padding_of(payload);
      return begin_payload(link, {at, bytes});
    }
    take(events, link, frame, access, {at, payload});
    const std::size_t step = std::min(bytes, all);
    link.padding = all - step;
    at += step;
    bytes -= step;
  }
}

// Bytes of a peer: ok only for a frame that may come now.
Code TcpEndpoint::check(TcpLink& link, const Frame& frame) {
  const bool is_up = link.state == TcpLink::State::up;
  bool is_good = false;
  switch (frame.kind) {
    case Kind::hello:
      is_good = link.state == TcpLink::State::greeting && frame.id == kMagic &&
                frame.bytes <= kMaxHelloBytes;
      break;
    case Kind::accept:
      is_good = link.state == TcpLink::State::asking && frame.id == kMagic;
      break;
    case Kind::message:
      is_good = is_up && frame.bytes <= kMessageMax;
      break;
    case Kind::put:
    case Kind::get:
      is_good = is_up && frame.bytes <= kMostBytes;
      break;
    case Kind::data:
    case Kind::done: {
      std::lock_guard lock(link.mutex);
      const Asked* asked = link.find_asked(frame.id);
      if (asked == nullptr) break;
      if (frame.kind == Kind::data)
        is_good = asked->is_get && !asked->has_data && frame.bytes == asked->bytes;
      else
        // Not before the bytes of a put have gone out: the program may use them again then.
        is_good = (frame.code == Code::bad_argument || frame.code == Code::not_permitted ||
                   (frame.code == Code::ok && asked->has_data == asked->is_get)) &&
                  !link.queue.has_put(frame.id);
      break;
    }
  }
  return is_good ? Code::ok : Code::corrupt;
}

// The payload's first bytes are here; the others are to be read into its place.
void TcpEndpoint::begin_payload(TcpLink& link, Bytes first) {
  const std::size_t bytes = payload_of(link.frame);
  std::shared_lock regions(regions_.mutex, std::defer_lock);
  if (link.frame.kind == Kind::put && bytes > kGather) {
    regions.lock();
    link.frame.code = regions_.check(link.access, bytes, kWrite);
    link.to = link.frame.code == Code::ok ? TcpLink::To::region : TcpLink::To::nowhere;
    link.at = at_address(link.access.address);
  } else if (link.frame.kind == Kind::data) {
    std::lock_guard lock(link.mutex);
    link.to = TcpLink::To::user;
    link.at = link.find_asked(link.frame.id)->to;
  } else {
    link.to = TcpLink::To::stash;
    link.at = link.stash.data();
  }
  link.missing = bytes - first.size();
  if (link.to == TcpLink::To::nowhere || first.empty()) return;
  std::memcpy(link.at, first.data(), first.size());
  link.at += first.size();
}

void TcpEndpoint::end_payload(Events& events, TcpLink& link) {
  switch (std::exchange(link.to, TcpLink::To::nothing)) {
    case TcpLink::To::nothing:
      break;
    case TcpLink::To::stash:
      take(events, link, link.frame, link.access, {link.stash.data(), payload_of(link.frame)});
      break;
    case TcpLink::To::region:
    case TcpLink::To::nowhere:
      answer(link, link.frame.id, link.frame.code);
      break;
    case TcpLink::To::user: {
      std::lock_guard lock(link.mutex);
      link.find_asked(link.frame.id)->has_data = true;
      break;
    }
  }
}

void TcpEndpoint::take(Events& events, TcpLink& link, const Frame& frame, const Access& access,
                       Bytes payload) {
  switch (frame.kind) {
    case Kind::hello:
      return take_hello(events, link, payload);
    case Kind::accept: {
      std::unique_lock lock(link.mutex);
      link.state = TcpLink::State::up;
      lock.unlock();
      return events.on_up(link);
    }
    case Kind::message:
      return events.on_message(link, payload);
    case Kind::put: {
      std::shared_lock lock(regions_.mutex);
      const Code code = regions_.check(access, payload.size(), kWrite);
      if (code == Code::ok) store(at_address(access.address), payload);
      lock.unlock();
      return answer(link, frame.id, code);
    }
    case Kind::get:
      return answer_get(link, frame, access);
    case Kind::data: {
      std::lock_guard lock(link.mutex);
      Asked& asked = *link.find_asked(frame.id);
      if (!payload.empty()) std::memcpy(asked.to, payload.data(), payload.size());
      asked.has_data = true;
      return;
    }
    case Kind::done:
      return take_done(link, frame);
  }
}

void TcpEndpoint::take_hello(Events& events, TcpLink& link, Bytes hello) {
  std::erase(greeting_, &link);
  if (!events.on_incoming(link, hello)) {
    if (!link.is_closed) close(link);
    return;
  }
  if (link.is_closed) return;
  const Frame frame{Kind::accept, Code::ok, 0, 0, kMagic};
  std::lock_guard lock(link.mutex);
  link.state = TcpLink::State::up;
  greet(link, {.frame = bytes_of(&frame, sizeof frame)});
}

void TcpEndpoint::take_done(TcpLink& link, const Frame& frame) {
  std::unique_lock lock(link.mutex);
  Asked& asked = *link.find_asked(frame.id);
  WorkRequest* request = std::exchange(asked.request, nullptr);
  link.free_asked.push_back(static_cast<std::uint32_t>(&asked - link.asked.data()));
  lock.unlock();
  request->done(*request, frame.code);
}

void TcpEndpoint::answer(TcpLink& link, std::uint64_t id, Code code) {
  const Frame frame{Kind::done, code, 0, 0, id};
  std::lock_guard lock(link.mutex);
  add_answer(link, {.frame = bytes_of(&frame, sizeof frame)});
}

void TcpEndpoint::answer_get(TcpLink& link, const Frame& frame, const Access& access) {
  Code code;
  {
    std::shared_lock lock(regions_.mutex);
    code = regions_.check(access, frame.bytes, kRead);
  }
  if (code == Code::ok) {
    const Frame data{Kind::data, Code::ok, 0, frame.bytes, frame.id};
    std::lock_guard lock(link.mutex);
    add_answer(link, {.frame = bytes_of(&data, sizeof data),
                      .kept = {at_address(access.address), frame.bytes},
                      .secret = access.secret});
  }
  answer(link, frame.id, code);
}

// It goes out with the others, once all that has come in is looked at.
void TcpEndpoint::add_answer(TcpLink& link, const Outgoing& out) {
  link.has_answers = true;
  const Code code = link.queue.is_flooded() ? Code::corrupt : link.queue.append(out);
  if (code != Code::ok) after_send(link, code);
}

}  // namespace weft::fabric::tcp
