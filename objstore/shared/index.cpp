#include "index.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace weft::objstore {
namespace {
constexpr std::uint32_t kPiece = 1024;  // of entries, that get memory at once
}

Status Index::open(std::uint32_t max_entries, std::uint64_t segment_capacity,
                   std::uint64_t generation) {
  max_entries_ = std::clamp<std::uint32_t>(max_entries, 1, kMaxEntries);
  if (Status status = make_memory("weft-index", false, file_); !status) return status;
  if (::ftruncate(file_.get(), static_cast<off_t>(kIndexBytes)) != 0)
    return system_error("making the index");
  if (Status status = memory_.map(file_, kIndexBytes, true); !status) return status;
  if (Status status = forbid_new_writers(file_); !status) return status;
  if (Status status = back_with_memory(file_, 0, kEntriesOffset); !status) return status;
  if (Status status = grow_table(kMinTableBits); !status) return status;
  IndexHeader& header = this->header();
  header.layout_version = kLayoutVersion;
  header.generation = generation;
  header.segment_capacity = segment_capacity;
  header.magic = kIndexMagic;
  return Code::ok;
}

Status Index::grow_table(int bits) {
  if (bits > kMaxTableBits) return {Code::no_memory, "the index is full"};
  const std::uint64_t bytes = std::uint64_t{8} << bits;
  if (Status status = back_with_memory(file_, table_offset(bits), bytes); !status) return status;
  Bucket* to = table(bits);
  const std::uint32_t mask = (1u << bits) - 1;
  if (bits_ != 0) {
    const Bucket* from = table(bits_);
    for (std::uint32_t i = 0; i < 1u << bits_; ++i) {
      const std::uint64_t bucket = from[i].load(std::memory_order_relaxed);
      if (bucket == 0) continue;
      std::uint32_t place = static_cast<std::uint32_t>(bucket >> 32);
      while (to[place & mask].load(std::memory_order_relaxed) != 0) ++place;
      to[place & mask].store(bucket, std::memory_order_relaxed);
    }
  }
  bits_ = bits;
  table_bytes_ += bytes;
  // release: the table's contents; pairs with IndexView::find.
  header().table_bits.store(static_cast<std::uint32_t>(bits), std::memory_order_release);
  return Code::ok;
}

std::uint32_t Index::find(const ObjectId& id) const {
  const std::uint32_t fingerprint = fingerprint_of(id), mask = (1u << bits_) - 1;
  const Bucket* buckets = table(bits_);
  for (std::uint32_t probe = 0;; ++probe) {
    const std::uint64_t bucket =
        buckets[(fingerprint + probe) & mask].load(std::memory_order_relaxed);
    if (bucket == 0) return kNoEntry;
    const std::uint32_t number = static_cast<std::uint32_t>(bucket) - 1;
    if (bucket >> 32 == fingerprint && is_of(entry(number), tail(number), id)) return number;
  }
}

Status Index::insert(const ObjectId& id, std::uint32_t& number) {
  if (std::uint64_t{size_} + 1 > (std::uint64_t{7} << bits_) / 10)
    if (Status status = grow_table(bits_ + 1); !status) return status;
  if (free_.empty()) {
    const std::uint32_t more = std::min(kPiece, max_entries_ - num_entries_);
    if (more == 0) return {Code::no_memory, "the index has room for no more objects"};
    const std::uint64_t bytes = std::uint64_t{more} * sizeof(Entry);
    if (Status status = back_with_memory(
            file_, kEntriesOffset + std::uint64_t{num_entries_} * sizeof(Entry), bytes);
        !status)
      return status;
    try {
      free_.reserve(more);
    } catch (const std::bad_alloc&) {
      return {Code::no_memory, "no memory is left for entries"};
    }
    entry_bytes_ += bytes;
    for (std::uint32_t i = more; i-- > 0;) {
      entry(num_entries_ + i).version.store(1, std::memory_order_relaxed);
      free_.push_back(num_entries_ + i);
    }
    num_entries_ += more;
    header().num_entries.store(num_entries_, std::memory_order_relaxed);
  }
  number = free_.back();
  const std::size_t head = std::min<std::size_t>(id.size, kIdHeadBytes);
  if (head < id.size) {
    if (Status status = back_tail(number); !status) return status;
    std::memcpy(tail(number).bytes, id.bytes.data() + head, id.size - head);
  }
  free_.pop_back();
  entry(number).id_bytes = id.size;
  std::memcpy(entry(number).id_head, id.bytes.data(), head);
  const std::uint32_t fingerprint = fingerprint_of(id), mask = (1u << bits_) - 1;
  Bucket* buckets = table(bits_);
  std::uint32_t place = fingerprint;
  while (buckets[place & mask].load(std::memory_order_relaxed) != 0) ++place;
  // release: the entry; pairs with IndexView::find.
  buckets[place & mask].store(std::uint64_t{fingerprint} << 32 | (number + 1),
                              std::memory_order_release);
  ++size_;
  return Code::ok;
}

// Memory for the tails of a piece of entries, from the first long id in it on.
Status Index::back_tail(std::uint32_t number) {
  const std::uint32_t piece = number / kPiece;
  if (piece < has_tails_.size() && has_tails_[piece]) return Code::ok;
  constexpr std::uint64_t kBytes = std::uint64_t{kPiece} * sizeof(IdTail);
  try {
    if (piece >= has_tails_.size()) has_tails_.resize(piece + 1);
  } catch (const std::bad_alloc&) {
    return {Code::no_memory, "no memory is left for ids"};
  }
  if (Status status = back_with_memory(file_, kTailsOffset + piece * kBytes, kBytes); !status)
    return status;
  has_tails_[piece] = true;
  tail_bytes_ += kBytes;
  return Code::ok;
}

ObjectId Index::id_of(std::uint32_t number) const {
  ObjectId id;
  id.size = entry(number).id_bytes;
  const std::size_t head = std::min<std::size_t>(id.size, kIdHeadBytes);
  std::memcpy(id.bytes.data(), entry(number).id_head, head);
  if (head < id.size) std::memcpy(id.bytes.data() + head, tail(number).bytes, id.size - head);
  return id;
}

// Closes the gap: buckets behind it that a search would miss now move up. A concurrent reader may
// miss an object, or see it twice.
void Index::remove(std::uint32_t number) {
  const std::uint32_t mask = (1u << bits_) - 1;
  Bucket* buckets = table(bits_);
  std::uint32_t gap = fingerprint_of(id_of(number)) & mask;
  while (static_cast<std::uint32_t>(buckets[gap].load(std::memory_order_relaxed)) != number + 1)
    gap = (gap + 1) & mask;
  for (std::uint32_t place = (gap + 1) & mask;; place = (place + 1) & mask) {
    const std::uint64_t bucket = buckets[place].load(std::memory_order_relaxed);
    if (bucket == 0) break;
    const std::uint32_t home = static_cast<std::uint32_t>(bucket >> 32) & mask;
    // It may stay where it is if its search begins behind the gap.
    if (((place - home) & mask) < ((place - gap) & mask)) continue;
    buckets[gap].store(bucket, std::memory_order_release);
    gap = place;
  }
  buckets[gap].store(0, std::memory_order_release);
  --size_;
}

}  // namespace weft::objstore
