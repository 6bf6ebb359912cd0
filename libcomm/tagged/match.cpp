#include "tagged/match.hpp"

#include <new>

namespace weft::tagged {

Matcher::~Matcher() {
  while (arrival_.head != nullptr) {
    Unexpected* message = arrival_.head;
    remove_unexpected(*message);
    delete message;
  }
  while (free_ != nullptr) {
    Unexpected* message = free_;
    free_ = message->next;
    delete message;
  }
}

Request* Matcher::take_first(Request* specific, int source, std::uint32_t context,
                             std::int32_t tag) noexcept {
  Request* found = specific;
  for (Request* r = any_.head; r != nullptr; r = r->next) {
    if (r->context != context || !tag_matches(r->tag, tag)) continue;
    if (r->peer != kAnySource && r->peer != source) continue;
    // progress_bytes holds the number given by post().
    if (found == nullptr || r->progress_bytes < found->progress_bytes) found = r;
    break;
  }
  if (found != nullptr) remove_posted(*found);
  return found;
}

Unexpected* Matcher::find_unexpected_slow(int source, std::uint32_t context,
                                          std::int32_t tag) noexcept {
  if (is_any(source, tag)) {
    for (Unexpected* m = arrival_.head; m != nullptr; m = m->next_any)
      if (m->context == context && (source == kAnySource || m->source == source) &&
          tag_matches(tag, m->tag))
        return m;
    return nullptr;
  }
  for (Unexpected* m = unexpected_[bucket(context, source, tag)].head; m != nullptr; m = m->next)
    if (m->context == context && m->source == source && tag_matches(tag, m->tag)) return m;
  return nullptr;
}

Unexpected* Matcher::find_rts(int source, std::uint64_t send_id) noexcept {
  for (Unexpected* m = arrival_.head; m != nullptr; m = m->next_any)
    if (m->is_rts && m->source == source && m->send_id == send_id) return m;
  return nullptr;
}

void Matcher::add_unexpected(Unexpected& message) noexcept {
  MessageList& list = unexpected_[bucket(message.context, message.source, message.tag)];
  message.next = nullptr;
  message.previous = list.tail;
  (list.tail ? list.tail->next : list.head) = &message;
  list.tail = &message;
  message.next_any = nullptr;
  message.previous_any = arrival_.tail;
  (arrival_.tail ? arrival_.tail->next_any : arrival_.head) = &message;
  arrival_.tail = &message;
  ++num_unexpected_;
  level_.store(num_unexpected_, std::memory_order_relaxed);
  if (num_unexpected_ > peak_.load(std::memory_order_relaxed))
    peak_.store(num_unexpected_, std::memory_order_relaxed);
  if (message.context == counted_context_) num_counted_.fetch_add(1, std::memory_order_relaxed);
}

void Matcher::remove_unexpected(Unexpected& message) noexcept {
  MessageList& list = unexpected_[bucket(message.context, message.source, message.tag)];
  (message.previous ? message.previous->next : list.head) = message.next;
  (message.next ? message.next->previous : list.tail) = message.previous;
  (message.previous_any ? message.previous_any->next_any : arrival_.head) = message.next_any;
  (message.next_any ? message.next_any->previous_any : arrival_.tail) = message.previous_any;
  --num_unexpected_;
  level_.store(num_unexpected_, std::memory_order_relaxed);
}

void Matcher::forget(int source) noexcept {
  for (Unexpected* message = arrival_.head; message != nullptr;) {
    Unexpected* next = message->next_any;
    if (message->source == source) {
      remove_unexpected(*message);
      release(message);
    }
    message = next;
  }
}

Unexpected* Matcher::allocate() noexcept {
  if (free_ == nullptr) return new (std::nothrow) Unexpected;
  Unexpected* message = free_;
  free_ = message->next;
  --num_free_;
  message->is_rts = false;
  message->arrived = 0;
  message->receiver = nullptr;
  message->taken = false;
  return message;
}

void Matcher::release(Unexpected* message) noexcept {
  message->data.reset();
  if (num_free_ >= kMaxFree) {
    delete message;
    return;
  }
  message->next = free_;
  free_ = message;
  ++num_free_;
}

}  // namespace weft::tagged
