#include "allocator.hpp"

#include <cassert>

namespace weft::objstore {

std::optional<std::uint64_t> Allocator::allocate(std::uint64_t bytes) {
  bytes = rounded(bytes);
  const auto best = by_size_.lower_bound({bytes, 0});
  if (best == by_size_.end()) return std::nullopt;
  const auto [hole, offset] = *best;
  const auto place = by_offset_.find(offset);
  by_size_.erase(best);
  free_bytes_ -= bytes;
  if (hole == bytes) {
    by_offset_.erase(place);
    return offset;
  }
  // The rest keeps its tree node: only its key grows.
  auto node = by_offset_.extract(place);
  node.key() = offset + bytes;
  node.mapped() = hole - bytes;
  by_offset_.insert(std::move(node));
  by_size_.insert({hole - bytes, offset + bytes});
  return offset;
}

void Allocator::free(std::uint64_t offset, std::uint64_t bytes) {
  bytes = rounded(bytes);
  free_bytes_ += bytes;
  auto next = by_offset_.lower_bound(offset);
  assert(next == by_offset_.end() || next->first >= offset + bytes);
  if (next != by_offset_.end() && next->first == offset + bytes) {
    bytes += next->second;
    by_size_.erase({next->second, next->first});
    next = by_offset_.erase(next);
  }
  if (next != by_offset_.begin()) {
    const auto before = std::prev(next);
    assert(before->first + before->second <= offset);
    if (before->first + before->second == offset) {
      by_size_.erase({before->second, before->first});
      before->second += bytes;
      by_size_.insert({before->second, before->first});
      return;
    }
  }
  by_offset_.emplace_hint(next, offset, bytes);
  by_size_.insert({bytes, offset});
}

}  // namespace weft::objstore
