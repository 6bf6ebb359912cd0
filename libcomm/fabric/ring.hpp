#pragma once
// Ring: a circular buffer in the receiver's memory that one remote lane alone writes. A message is
// one entry: a head and its data, starting on a cache line, so that a message of up to 48 bytes
// crosses between two cores as a single line. After the design of the graph engine's paper (section
// 4), with the head's sequence number in place of a separate tail: the memory is coherent, so a
// head stored last with release shows that everything before it has arrived.
//
// The reader distinguishes a head from old bytes as it waits at one offset for one sequence number.
//   1. Heads of the round before have older numbers (24 bits; no round has as many entries).
//   2. Old data could have any value, and heads that wraps leave out become so old that their
//      numbers come again. So the writer, before it publishes an entry, clears the line of the next
//      head if one of these lay there. It remembers those lines in a bitmap of its own, so that
//      streams of small messages clear nothing.
//   3. An entry may be written only if it and the next head's line are free.
//
// Credit. Both sides count bytes from the start, gaps included. The reader publishes what it has
// consumed; the writer may be ahead by at most the capacity. Capacity is the writer's choice. Once
// it has waited for room it doubles that at the end of the ring: instead of wrapping it goes on
// into fresh memory. The reader needs no notice of that, it follows entries until a wrap mark. In a
// ring larger than the caches of a core the writer finds its lines in the shared cache, and need
// not take them back from the reader's own.
//
// Threads: one writer, one reader, in the same or in different processes.
//
// Tests: tests/fabric/ring_test.cpp, tests/fuzz/fabric_ring.cpp,
// tests/exchange/model/ring_model_test.cpp.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/stats.hpp"

namespace weft {

struct EntryHead {
  std::atomic<std::uint32_t> state;  // sequence << 8 | kind; written last
  std::uint32_t length;              // bytes of data behind the head
  std::uint64_t immediate;           // the client's
};
static_assert(sizeof(EntryHead) == 16);

inline constexpr std::size_t kEntryAlign = 64;
inline constexpr std::size_t kInlineBytes = kEntryAlign - sizeof(EntryHead);  // within one line
inline constexpr std::uint8_t kKindWrap = 0;  // "go on at the start"; clients use kinds from 1

// Counts are multiples of kEntryAlign; their low bits carry flags from the reader to the writer.
inline constexpr std::uint64_t kFlagMask = kEntryAlign - 1;

inline std::uint32_t next_sequence(std::uint32_t sequence) noexcept {
  return sequence == 0xff'ffffu ? 1 : sequence + 1;  // 0 is fresh memory
}

inline std::size_t entry_bytes(std::size_t length) noexcept {
  return (sizeof(EntryHead) + length + kEntryAlign - 1) & ~(kEntryAlign - 1);
}

class RingWriter {
 public:
  // base: `maximum` bytes and one line beyond; consumed: where the reader publishes its count.
  // May throw std::bad_alloc; attach() with that capacity then does not.
  void make_room(std::uint32_t capacity) { data_lines_.reserve(num_words(capacity)); }
  void attach(std::byte* base, std::uint32_t capacity, std::uint32_t maximum,
              const std::atomic<std::uint64_t>* consumed) {
    base_ = base;
    maximum_ = std::min(maximum, kMaxBytes);
    capacity_ = std::min(capacity, maximum_);
    consumed_word_ = consumed;
    data_lines_.assign(num_words(capacity_), 0);
  }
  // Continues at the start of other memory, which is all unwritten. Does not allocate after
  // make_room(capacity).
  void move_to(std::byte* base, std::uint32_t capacity, std::uint32_t maximum) noexcept {
    base_ = base;
    maximum_ = std::min(maximum, kMaxBytes);
    capacity_ = std::min(capacity, maximum_);
    offset_ = 0;
    look_before_ = 0;
    stalled_ = false;
    data_lines_.assign(num_words(capacity_), 0);
  }
  std::uint32_t capacity() const noexcept { return capacity_; }
  // Takes the memory of the capacity at once, where base and `from` begin a page: no entry then
  // waits for it.
  void populate(std::uint32_t from = 0) noexcept;
  // Sets the counters of its entries.
  void count_in(stats::Row& row) noexcept { row_ = &row; }

  // For lanes that post the written bytes (remote fabrics): the offset of the next entry, and that
  // of the mark of the last wrap until forget_wrap(), or kNoWrap.
  static constexpr std::uint32_t kNoWrap = ~std::uint32_t{0};
  std::uint32_t offset() const noexcept { return offset_; }
  std::uint32_t wrapped_at() const noexcept { return wrapped_at_; }
  void forget_wrap() noexcept { wrapped_at_ = kNoWrap; }

  // For lanes whose reader is notified of it: returns to the ring's start, which the caches still
  // have, if the reader has consumed everything. False: it has not, or this is the start.
  bool restart() noexcept {
    if (offset_ == 0 || !is_read()) return false;
    offset_ = 0;
    return true;
  }
  // Returns true if the reader has consumed everything, according to its last credit.
  bool is_read() noexcept {
    poll_credit();
    return consumed_ == written_;
  }

  // The longest data that one entry can have in a ring that has not grown.
  static std::size_t max_length(std::size_t capacity) noexcept {
    return capacity / 4 - sizeof(EntryHead);
  }

  // Makes room for an entry with `length` bytes of data and returns where they go, or null if there
  // is no room now. Nothing is visible to the reader before publish().
  std::byte* reserve(std::size_t length) noexcept {
    const std::size_t bytes = entry_bytes(length);
    if (offset_ + bytes > capacity_ && !wrap_or_grow(bytes)) return nullptr;
    if (written_ + bytes + kEntryAlign > look_before_ && !refresh(bytes)) return nullptr;
    reserved_ = bytes;
    return base_ + offset_ + sizeof(EntryHead);
  }

  void publish(std::uint8_t kind, std::uint32_t length, std::uint64_t immediate) noexcept {
    auto* head = reinterpret_cast<EntryHead*>(base_ + offset_);
    const std::size_t line = offset_ / kEntryAlign;
    const std::size_t lines = reserved_ / kEntryAlign;
    if (lines > 1) mark_data(line + 1, lines - 1);
    clear_bit(line);
    const std::size_t next = line + lines;
    if (test_bit(next)) {
      // relaxed: ordered before the head below by its release.
      reinterpret_cast<EntryHead*>(base_ + next * kEntryAlign)
          ->state.store(0, std::memory_order_relaxed);
      clear_bit(next);
    }
    head->length = length;
    head->immediate = immediate;
    // release: pairs with the acquire in RingReader::peek.
    head->state.store(sequence_ << 8 | kind, std::memory_order_release);
    sequence_ = next_sequence(sequence_);
    offset_ += static_cast<std::uint32_t>(reserved_);
    written_ += reserved_;
    row_->add(stats::Counter::sent, 1);
    row_->add(stats::Counter::sent_bytes, length);
  }

  // The low bits that the reader last sent along with its count.
  std::uint64_t flags() const noexcept { return flags_; }
  // Reads the credit word even if there is room; flags() is current afterwards.
  void poll_credit() noexcept {
    // acquire: the reader is done with what it counts before we overwrite it; pairs with the
    // release in RingReader::return_credit.
    const std::uint64_t word = consumed_word_->load(std::memory_order_acquire);
    consumed_ = word & ~kFlagMask;
    flags_ = word & kFlagMask;
  }

 private:
  // The writer reads the flags after so many bytes at the latest.
  static constexpr std::uint64_t kLookBytes = 64 * 1024;
  // The most that is used of a ring: fewer lines than there are sequence numbers.
  static constexpr std::uint32_t kMaxBytes = (1u << 30) - 4096;
  static_assert(kMaxBytes / kEntryAlign + 1 < 0xff'ffff);

  std::uint64_t limit() const noexcept { return consumed_ + capacity_; }

  bool refresh(std::size_t bytes) noexcept {
    poll_credit();
    look_before_ = std::min(limit(), written_ + kLookBytes);
    if (written_ + bytes + kEntryAlign <= limit()) return true;
    stalled_ = true;
    if (stalled_at_ != written_) {
      stalled_at_ = written_;
      row_->add(stats::Counter::stalls, 1);
    }
    return false;
  }

  // Out of line: once a round.
  bool wrap_or_grow(std::size_t bytes) noexcept;

  // Of a bitmap of the lines, with one more line behind them. Idle lanes pay for no larger ring.
  static std::size_t num_words(std::uint32_t capacity) noexcept {
    return capacity / kEntryAlign / 64 + 1;
  }
  bool test_bit(std::size_t line) const noexcept {
    return data_lines_[line / 64] >> (line % 64) & 1;
  }
  void clear_bit(std::size_t line) noexcept {
    data_lines_[line / 64] &= ~(std::uint64_t{1} << (line % 64));
  }
  void mark_data(std::size_t line, std::size_t count) noexcept {
    for (; count > 0 && line % 64 != 0; --count, ++line)
      data_lines_[line / 64] |= std::uint64_t{1} << (line % 64);
    for (; count >= 64; count -= 64, line += 64) data_lines_[line / 64] = ~std::uint64_t{0};
    if (count > 0) data_lines_[line / 64] |= (std::uint64_t{1} << count) - 1;
  }

  std::byte* base_ = nullptr;
  std::uint32_t offset_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t sequence_ = 1;
  std::uint32_t maximum_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t look_before_ = 0;  // writes beyond: at most limit()
  std::uint64_t consumed_ = 0;
  std::size_t reserved_ = 0;
  const std::atomic<std::uint64_t>* consumed_word_ = nullptr;
  std::vector<std::uint64_t>
      data_lines_;  // bit: the line may hold bytes that look like the next head
  std::uint64_t flags_ = 0;
  stats::Row* row_ = &stats::unseen;
  std::uint64_t stalled_at_ = ~std::uint64_t{0};  // the last time
  std::uint32_t wrapped_at_ = kNoWrap;
  bool stalled_ = false;
};

// An entry as its reader sees it.
struct Entry {
  std::uint8_t kind;
  std::uint32_t length;
  std::uint64_t immediate;
  const std::byte* data;
};

class RingReader {
 public:
  // maximum: the largest the ring can be; consumed: where this reader publishes its count.
  void attach(std::byte* base, std::uint32_t maximum, std::atomic<std::uint64_t>* consumed) {
    base_ = base;
    maximum_ = maximum;
    consumed_word_ = consumed;
  }
  // Sets the counters of its entries.
  void count_in(stats::Row& row) noexcept { row_ = &row; }

  // Peeks at the next entry: false if there is none yet. Its data stay valid until pop(). broken()
  // turns true if the entry is one that no correct writer makes.
  bool peek(Entry& entry) noexcept {
    auto* head = reinterpret_cast<EntryHead*>(base_ + offset_);
    // acquire: pairs with the release in RingWriter::publish.
    const std::uint32_t state = head->state.load(std::memory_order_acquire);
    if (state >> 8 != sequence_) {
      for (std::uint32_t i = 1; i < ahead_; ++i)
        __builtin_prefetch(reinterpret_cast<std::byte*>(head) + i * kEntryAlign);
      return false;
    }
    entry.kind = state & 0xff;
    if (entry.kind == kKindWrap) [[unlikely]]
      return wrap(*head, entry);
    entry.length = head->length;  // read once: the writer could change it after the check
    entry.immediate = head->immediate;
    entry.data = reinterpret_cast<const std::byte*>(head + 1);
    if (!fits(entry.length)) [[unlikely]] {
      broken_ = true;
      return false;
    }
    return true;
  }

  // The same where the ring is written by a remote fabric, which counts the bytes of entries that
  // have arrived; only those are read, and they must be in sequence. restarted: how many had
  // arrived when the writer last returned to the start without a wrap.
  bool peek_arrived(Entry& entry, std::uint64_t arrived, std::uint64_t restarted) noexcept;
  // Bytes of entries, and of marks, that were read.
  std::uint64_t read() const noexcept { return consumed_ - skipped_; }
  // Continues at the start of other memory.
  void move_to(std::byte* base, std::uint32_t maximum) noexcept {
    base_ = base;
    maximum_ = maximum;
    offset_ = 0;
  }

  void pop(std::uint32_t length) noexcept {
    const auto bytes = static_cast<std::uint32_t>(entry_bytes(length));
    offset_ += bytes;
    ahead_ = bytes <= kAheadBytes ? bytes / kEntryAlign : 0;
    consumed_ += bytes;
    sequence_ = next_sequence(sequence_);
    row_->add(stats::Counter::received, 1);
    row_->add(stats::Counter::received_bytes, length);
  }

  // Credit that the writer does not know of yet, in bytes.
  std::uint64_t unreturned() const noexcept { return consumed_ - returned_; }
  // flags: below kEntryAlign; for the writer's client.
  void return_credit(std::uint64_t flags) noexcept {
    returned_ = consumed_;
    // release: pairs with the acquire in RingWriter::poll_credit.
    consumed_word_->store(consumed_ | flags, std::memory_order_release);
  }
  // The word that return_credit() would store, for a fabric to carry.
  std::uint64_t take_credit(std::uint64_t flags) noexcept {
    returned_ = consumed_;
    return consumed_ | flags;
  }
  // For rings whose credit another carrier reports to the writer, too: publishes the consumed
  // bytes, and takes over how many of them were reported.
  void share_credit(std::uint64_t reported) noexcept {
    // acquire at the carrier of the credit pairs with this release.
    consumed_word_->store(consumed_, std::memory_order_release);
    if (reported > returned_) returned_ = reported;
  }
  std::uint64_t consumed() const noexcept { return consumed_; }
  bool broken() const noexcept { return broken_; }

 private:
  // Returns true if an entry at offset_ ends within the ring: the next one then begins there or
  // directly behind it, where a wrap mark may be. Both are multiples of kEntryAlign.
  bool fits(std::uint32_t length) const noexcept {
    return sizeof(EntryHead) + length <= maximum_ - offset_;
  }
  // Out of line: once a round.
  bool wrap(const EntryHead& head, Entry& entry) noexcept;
  bool take_turn(const EntryHead& head) noexcept;

  // Entries up to this size are expected to be followed by ones of the same size: while the reader
  // waits for the head, it prefetches their other lines, so that they arrive as soon as the writer
  // has written them and not one transfer later. With longer ones reader and writer take lines from
  // each other.
  static constexpr std::uint32_t kAheadBytes = 5 * kEntryAlign;

  std::byte* base_ = nullptr;
  std::uint32_t offset_ = 0;
  std::uint32_t sequence_ = 1;
  std::uint64_t consumed_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t skipped_ = 0;  // consumed, but never written: gaps but for their marks
  std::atomic<std::uint64_t>* consumed_word_ = nullptr;
  stats::Row* row_ = &stats::unseen;
  std::uint32_t maximum_ = 0;
  std::uint32_t ahead_ = 0;  // lines of the last entry, if that was short
  bool broken_ = false;
};

}  // namespace weft
