#pragma once
// Allocator: which bytes of the segment are free. Best fit; neighbours that are free become one.
//
// Used by Objects under its lock. It never touches the memory it gives out: its records are two
// trees over the free ranges, by offset and by size, so an object costs nothing here and a hole
// about 130 bytes.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace weft::objstore {

class Allocator {
 public:
  static constexpr std::uint64_t kAlignment = 64;
  // The bytes that a request takes; at least one unit, so that every object has an offset of its
  // own.
  static constexpr std::uint64_t rounded(std::uint64_t bytes) {
    return bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  // More memory, directly behind or apart from what there was; multiples of kAlignment.
  void add(std::uint64_t offset, std::uint64_t bytes) { free(offset, bytes); }
  // The smallest hole that fits, the lowest of these; nothing if none fits.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  // `bytes` as it was asked for.
  void free(std::uint64_t offset, std::uint64_t bytes);

  std::uint64_t free_bytes() const { return free_bytes_; }
  std::uint64_t largest_hole() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  std::size_t num_holes() const { return by_offset_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> by_offset_;           // offset -> bytes
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (bytes, offset)
  std::uint64_t free_bytes_ = 0;
};

}  // namespace weft::objstore
