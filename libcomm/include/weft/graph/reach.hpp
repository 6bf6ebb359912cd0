#pragma once
// Reach: the vertices that a rank has to do with, in blocks: its own, and the other ends of their
// edges. Arrays of values have room for all vertices in every rank, but only the pages of these
// blocks are touched, and so are in memory.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/export.hpp"
#include "weft/graph/types.hpp"

namespace weft::graph {

// Any threads may add at the same time; the rest is for when none does.
class Reach {
 public:
  static constexpr VertexId kBlock = 512;  // whose doubles are a page

  Reach() = default;
  explicit Reach(VertexId num_vertices)
      : num_blocks_((std::size_t{num_vertices} + kBlock - 1) / kBlock),
        words_((num_blocks_ + 63) / 64) {}

  static constexpr std::size_t block_of(VertexId vertex) noexcept { return vertex / kBlock; }
  std::size_t num_blocks() const noexcept { return num_blocks_; }

  void add(VertexId vertex) noexcept { add_block(block_of(vertex)); }
  void add(VertexId first, VertexId last) noexcept {
    for (std::size_t b = block_of(first); first < last && b <= block_of(last - 1); ++b)
      add_block(b);
  }
  void add_block(std::size_t block) noexcept {
    const std::atomic_ref word(words_[block / 64]);
    const std::uint64_t bit = std::uint64_t{1} << block % 64;
    if ((word.load(std::memory_order_relaxed) & bit) == 0)
      word.fetch_or(bit, std::memory_order_relaxed);
  }

  bool has_block(std::size_t block) const noexcept {
    return (words_[block / 64] >> block % 64 & 1) != 0;
  }
  bool has(VertexId vertex) const noexcept { return has_block(block_of(vertex)); }
  std::size_t count() const noexcept {
    std::size_t sum = 0;
    for (const std::uint64_t word : words_) sum += static_cast<unsigned>(std::popcount(word));
    return sum;
  }
  // visit(begin, end) for the vertices of [first, last) in blocks that it has, in order: as few and
  // as long ranges as there are.
  template <class Visit>
  void for_each(VertexId first, VertexId last, Visit&& visit) const {
    if (first >= last) return;
    const std::size_t end = block_of(last - 1) + 1;
    for (std::size_t b = block_of(first); b < end;) {
      const std::size_t begin = next(b, end, true);
      if (begin == end) return;
      b = next(begin, end, false);
      visit(std::max(first, static_cast<VertexId>(begin * kBlock)),
            b == end ? last : static_cast<VertexId>(b * kBlock));
    }
  }
  // A bit for each block.
  std::vector<std::uint64_t>& words() noexcept { return words_; }
  const std::vector<std::uint64_t>& words() const noexcept { return words_; }

 private:
  // The first block from `block` on that it has, or has not.
  std::size_t next(std::size_t block, std::size_t end, bool has) const noexcept {
    while (block < end) {
      const std::uint64_t word = (has ? words_[block / 64] : ~words_[block / 64]) >> block % 64;
      if (word != 0) return std::min(end, block + static_cast<unsigned>(std::countr_zero(word)));
      block = (block / 64 + 1) * 64;
    }
    return end;
  }

  std::size_t num_blocks_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace weft::graph
