#include "tagged/match.hpp"

#include <new>

namespace weft::tagged {

Matcher::~Matcher() {
  while (Unexpected* message = arrival_.pop_front()) delete message;
  while (free_ != nullptr) {
    Unexpected* message = free_;
    free_ = message->next;
    delete message;
  }
}

Request* Matcher::take_first(Request* specific, int source, std::uint32_t context,
                             std::int32_t tag) noexcept {
  Request* found = specific;
  for (Request* r = any_.first(); r != nullptr; r = r->next) {
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
    for (Unexpected* m = arrival_.first(); m != nullptr; m = m->next_any)
      if (m->context == context && (source == kAnySource || m->source == source) &&
          tag_matches(tag, m->tag))
        return m;
    return nullptr;
  }
  auto& list = unexpected_[bucket(context, source, tag)];
  for (Unexpected* m = list.first(); m != nullptr; m = m->next)
    if (m->context == context && m->source == source && tag_matches(tag, m->tag)) return m;
  return nullptr;
}

Unexpected* Matcher::find_rts(int source, std::uint64_t send_id) noexcept {
  for (Unexpected* m = arrival_.first(); m != nullptr; m = m->next_any)
    if (m->is_rts && m->source == source && m->send_id == send_id) return m;
  return nullptr;
}

void Matcher::add_unexpected(Unexpected& message) noexcept {
  unexpected_[bucket(message.context, message.source, message.tag)].push_back(message);
  arrival_.push_back(message);
  ++num_unexpected_;
  level_.store(num_unexpected_, std::memory_order_relaxed);
  if (num_unexpected_ > peak_.load(std::memory_order_relaxed))
    peak_.store(num_unexpected_, std::memory_order_relaxed);
  if (message.context == counted_context_) num_counted_.fetch_add(1, std::memory_order_relaxed);
}

void Matcher::remove_unexpected(Unexpected& message) noexcept {
  unexpected_[bucket(message.context, message.source, message.tag)].remove(message);
  arrival_.remove(message);
  --num_unexpected_;
  level_.store(num_unexpected_, std::memory_order_relaxed);
}

void Matcher::forget(int source) noexcept {
  arrival_.for_each([&](Unexpected& message) {
    if (message.source != source) return;
    remove_unexpected(message);
    release(&message);
  });
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
