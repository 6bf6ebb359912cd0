#include "fabric/tcp/link.hpp"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/shortage.hpp"

namespace weft::fabric::tcp {
namespace {

// Up to here a frame is copied to be sent by send(), which costs less than sendmsg().
constexpr std::size_t kFlat = 1024;
constexpr std::size_t kMostParts = 16;
constexpr std::size_t kAtOnce = 1 << 20;  // bytes of a call; other links wait meanwhile
constexpr int kMostCalls = 4;             // of a flush
constexpr std::byte kPadding[kAlign] = {};

iovec part_of(Bytes bytes) { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

std::byte* put_down(std::byte* to, Bytes bytes) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

Bytes padding_behind(const Outgoing& out) {
  return {kPadding, padding_of(out.head.size() + out.body.size() + out.kept.size())};
}

// The bytes that the socket took.
Code result_of(ssize_t count, std::size_t& sent) {
  sent = count < 0 ? 0 : static_cast<std::size_t>(count);
  if (count >= 0 || errno == EAGAIN || errno == EINTR) return Code::ok;
  return errno == ECONNREFUSED ? Code::not_found : Code::peer_lost;
}

Code send_parts(int fd, iovec* parts, std::size_t count, std::size_t& sent) {
  if (count == 1)  // which costs less
    return result_of(::send(fd, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL),
                     sent);
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  return result_of(::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL), sent);
}

}  // namespace

SendQueue::SendQueue() noexcept {
  [[maybe_unused]] const Code code = or_no_memory([&] {
    copied_.reserve(kMostHead + kMessageMax + kAlign);
    segments_.reserve(16);
  });
}

Code SendQueue::send(int fd, const Outgoing& out) {
  if (!is_empty()) return add(out, 0) == Code::ok ? Code::ok : Code::again;
  const Bytes behind = padding_behind(out);
  const std::size_t total =
      out.frame.size() + out.head.size() + out.body.size() + out.kept.size() + behind.size();
  std::size_t sent = 0;
  Code code;
  if (total <= kFlat) {
    std::byte flat[kFlat];
    std::byte* end = flat;
    for (const Bytes bytes : {out.frame, out.head, out.body, out.kept, behind})
      end = put_down(end, bytes);
    code = result_of(::send(fd, flat, total, MSG_DONTWAIT | MSG_NOSIGNAL), sent);
  } else {
    iovec parts[] = {part_of(out.frame), part_of(out.head), part_of(out.body),
                     part_of(out.kept.first(std::min(out.kept.size(), kAtOnce))), part_of(behind)};
    const std::size_t count = out.kept.size() > kAtOnce ? 4 : 5;
    code = send_parts(fd, parts, count, sent);
  }
  if (code != Code::ok) return code;
  if (sent < total && add(out, sent) != Code::ok) return sent == 0 ? Code::again : Code::no_memory;
  if (sent < total) return Code::ok;
  if (out.request != nullptr) {
    ++num_in_place_;
    finished_[num_finished_++] = out.request;
  }
  return Code::ok;
}

// Room for all of it, after which nothing fails.
void SendQueue::make_space(const Outgoing& out) {
  if (begin_ == copied_.size() || begin_ > copied_.size() / 2) {
    copied_.erase(copied_.begin(), copied_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
  }
  if (first_ == segments_.size() || first_ > segments_.size() / 2) {
    segments_.erase(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  make_room(copied_, out.frame.size() + out.head.size() + out.body.size() + kAlign);
  make_room(segments_, 3);
}

void SendQueue::copy(Bytes bytes) noexcept {
  if (bytes.empty()) return;
  copied_.insert(copied_.end(), bytes.begin(), bytes.end());
  if (!is_empty() && segments_.back().from == nullptr)
    segments_.back().bytes += bytes.size();
  else
    segments_.push_back({nullptr, bytes.size(), nullptr, 0, 0});
}

// What the socket has not taken of it.
Code SendQueue::add(const Outgoing& out, std::size_t sent) {
  if (const Code code = or_no_memory([&] { make_space(out); }); code != Code::ok) return code;
  const auto rest_of = [&](Bytes bytes) {
    const std::size_t skipped = std::min(sent, bytes.size());
    sent -= skipped;
    return bytes.subspan(skipped);
  };
  for (const Bytes bytes : {out.frame, out.head, out.body}) copy(rest_of(bytes));
  if (const Bytes kept = rest_of(out.kept); !kept.empty() || out.request != nullptr) {
    segments_.push_back({kept.data(), kept.size(), out.request, out.secret, out.id});
    if (out.request != nullptr) ++num_in_place_;
  }
  copy(rest_of(padding_behind(out)));
  return Code::ok;
}

void SendQueue::remove_sent(std::size_t bytes) {
  while (!is_empty() && segments_[first_].bytes <= bytes) {
    const Segment& first = segments_[first_];
    bytes -= first.bytes;
    if (first.from == nullptr) begin_ += first.bytes;
    if (first.request != nullptr) finished_[num_finished_++] = first.request;
    ++first_;
  }
  if (bytes == 0) return;
  Segment& first = segments_[first_];
  first.bytes -= bytes;
  if (first.from == nullptr)
    begin_ += bytes;
  else
    first.from += bytes;
}

Code SendQueue::flush(int fd, const Regions& regions) {
  for (int call = 0; call < kMostCalls && !is_empty(); ++call) {
    iovec parts[kMostParts];
    std::size_t count = 0, bytes = 0;
    const std::byte* copied = copied_.data() + begin_;
    std::shared_lock lock(regions.mutex, std::defer_lock);
    for (const Segment& segment : waiting()) {
      if (count == kMostParts || bytes >= kAtOnce) break;
      if (segment.secret != 0) {
        if (!lock) lock.lock();
        // The bytes were promised: nothing else can follow.
        if (!regions.has(segment.secret)) return Code::not_permitted;
      }
      const std::size_t some = std::min(segment.bytes, kAtOnce - bytes);
      parts[count++] = part_of({segment.from == nullptr ? copied : segment.from, some});
      if (segment.from == nullptr) copied += segment.bytes;
      bytes += some;
    }
    std::size_t sent = 0;
    if (const Code code = send_parts(fd, parts, count, sent); code != Code::ok) return code;
    remove_sent(sent);
    if (sent < bytes) return Code::ok;
  }
  return Code::ok;
}

WorkRequest* SendQueue::take_finished() noexcept {
  if (num_finished_ == 0) return nullptr;
  --num_in_place_;
  WorkRequest* request = finished_[0];
  std::copy(finished_.begin() + 1, finished_.begin() + num_finished_--, finished_.begin());
  return request;
}

WorkRequest* SendQueue::take_any() noexcept {
  for (Segment& segment : waiting())
    if (segment.request != nullptr) return std::exchange(segment.request, nullptr);
  return nullptr;
}

void SendQueue::forget(const WorkRequest& request) noexcept {
  for (Segment& segment : waiting())
    if (segment.request == &request) {
      segment.request = nullptr;
      --num_in_place_;
    }
  auto* const end = finished_.begin() + num_finished_;
  auto* const kept = std::remove(finished_.begin(), end, &request);
  num_in_place_ -= static_cast<std::size_t>(end - kept);
  num_finished_ -= static_cast<std::size_t>(end - kept);
}

bool SendQueue::has_put(std::uint64_t id) const noexcept {
  return std::ranges::any_of(waiting(), [id](const Segment& one) { return one.id == id; });
}

Asked* TcpLink::find_asked(std::uint64_t id) noexcept {
  const std::size_t slot = id & 0xffff'ffff;
  if (slot >= asked.size() || asked[slot].request == nullptr || asked[slot].uses != id >> 32)
    return nullptr;
  return &asked[slot];
}

WorkRequest* TcpLink::take_asked() noexcept {
  for (Asked& one : asked)
    if (one.request != nullptr) return std::exchange(one.request, nullptr);
  return nullptr;
}

}  // namespace weft::fabric::tcp
