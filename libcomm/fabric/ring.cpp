#include "fabric/ring.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "base/shortage.hpp"

namespace weft {

void RingWriter::populate(std::uint32_t from) noexcept {
  // A kernel without this advice brings the pages one by one.
  madvise(base_ + from, capacity_ - from, MADV_POPULATE_WRITE);
}

bool RingWriter::wrap_or_grow(std::size_t bytes) noexcept {
  std::uint32_t gap = capacity_ - offset_;
  if (stalled_ && capacity_ < maximum_) {
    // Behind the old end all is free. Before it, the ring is free only once the reader has passed
    // the end: unread entries may lie there, a wrap mark included.
    if (written_ + gap + kEntryAlign > limit() && !refresh(gap)) return false;
    stalled_ = false;
    const std::uint32_t before = capacity_;
    const std::uint32_t more = before > maximum_ / 2 ? maximum_ : 2 * before;
    // Without memory for that it stays as it is.
    if (or_no_memory([&] { data_lines_.resize(num_words(more)); }) == Code::ok) {
      capacity_ = more;
      populate(before);
      // The ring may have grown by less than the entry: then it wraps all the same.
      if (offset_ + bytes <= capacity_) return true;
      gap = capacity_ - offset_;
    }
  }
  // The gap counts as written. The place of the mark is free: reserve() keeps one line ahead.
  if (written_ + gap + bytes + kEntryAlign > limit() && !refresh(gap + bytes)) return false;
  auto* mark = reinterpret_cast<EntryHead*>(base_ + offset_);
  clear_bit(offset_ / kEntryAlign);
  if (gap > kEntryAlign) mark_data(offset_ / kEntryAlign + 1, gap / kEntryAlign - 1);
  if (test_bit(0)) {
    reinterpret_cast<EntryHead*>(base_)->state.store(0, std::memory_order_relaxed);
    clear_bit(0);
  }
  mark->length = gap;
  mark->state.store(sequence_ << 8 | kKindWrap, std::memory_order_release);
  sequence_ = next_sequence(sequence_);
  wrapped_at_ = offset_;
  written_ += gap;
  offset_ = 0;
  return true;
}

bool RingReader::wrap(const EntryHead& head, Entry& entry) noexcept {
  return take_turn(head) && peek(entry);
}

bool RingReader::take_turn(const EntryHead& head) noexcept {
  const std::uint32_t gap = head.length;
  if (offset_ == 0 || gap > maximum_ - offset_) {
    broken_ = true;
    return false;
  }
  consumed_ += gap;
  skipped_ += gap - kEntryAlign;  // modulo 2^64: an empty gap has a mark too
  sequence_ = next_sequence(sequence_);
  offset_ = 0;
  return true;
}

bool RingReader::peek_arrived(Entry& entry, std::uint64_t arrived,
                              std::uint64_t restarted) noexcept {
  for (;;) {
    const std::uint64_t there = arrived - read();
    if (there < kEntryAlign) return false;
    if (restarted == read()) offset_ = 0;
    const auto& head = *reinterpret_cast<const EntryHead*>(base_ + offset_);
    // relaxed: the count of arrived bytes made them visible.
    const std::uint32_t state = head.state.load(std::memory_order_relaxed);
    entry.kind = state & 0xff;
    if (state >> 8 != sequence_) {
      broken_ = true;
      return false;
    }
    if (entry.kind == kKindWrap) {
      if (!take_turn(head)) return false;
      continue;
    }
    entry.length = head.length;
    entry.immediate = head.immediate;
    entry.data = reinterpret_cast<const std::byte*>(&head + 1);
    if (!fits(entry.length)) {
      broken_ = true;
      return false;
    }
    return entry_bytes(entry.length) <= there;
  }
}

}  // namespace weft
