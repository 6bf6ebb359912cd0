#pragma once
// VertexSet: which vertices are active, a bit for each vertex of the graph (1/96 of a 12-byte
// edge). Any threads may insert at the same time; clear and count are for one thread while none
// inserts.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "weft/export.hpp"
#include "weft/graph/graph.hpp"

namespace weft::graph {

class VertexSet {
 public:
  explicit VertexSet(const Graph& graph)
      : words_(nullptr, (static_cast<std::size_t>(graph.num_vertices()) + 63) / 64) {}

  // True if this call put it in.
  bool insert(VertexId vertex) noexcept {
    std::atomic_ref<std::uint64_t> word(words_[vertex / 64]);
    const std::uint64_t bit = std::uint64_t{1} << vertex % 64;
    return (word.load(std::memory_order_relaxed) & bit) == 0 &&
           (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }
  // The same while no other thread inserts.
  bool insert_alone(VertexId vertex) noexcept {
    std::uint64_t& word = words_[vertex / 64];
    const std::uint64_t bit = std::uint64_t{1} << vertex % 64;
    const bool had = (word & bit) != 0;
    word |= bit;
    return !had;
  }
  // Any threads may do so at the same time.
  void remove(VertexId vertex) noexcept {
    std::atomic_ref<std::uint64_t>(words_[vertex / 64])
        .fetch_and(~(std::uint64_t{1} << vertex % 64), std::memory_order_relaxed);
  }
  // While no other thread changes the set.
  void erase(VertexId vertex) noexcept {
    words_[vertex / 64] &= ~(std::uint64_t{1} << vertex % 64);
  }
  bool contains(VertexId vertex) const noexcept {
    return (words_[vertex / 64] >> vertex % 64 & 1) != 0;
  }
  // Pages that have nothing are not written, and so take no memory.
  void clear() noexcept {
    constexpr std::size_t kPiece = 64;
    for (std::size_t w = 0; w < words_.size(); w += kPiece) {
      const auto begin = words_.begin() + w,
                 end = words_.begin() + std::min(w + kPiece, words_.size());
      std::uint64_t any = 0;
      for (const std::uint64_t* word = begin; word != end; ++word) any |= *word;
      if (any != 0) std::fill(begin, end, 0);
    }
  }
  void swap(VertexSet& other) noexcept { words_.swap(other.words_); }

  // Members in [first, last).
  std::uint64_t count(VertexId first, VertexId last) const noexcept {
    std::uint64_t sum = 0;
    for_each_word(first, last, [&](std::size_t, std::uint64_t bits) {
      sum += static_cast<unsigned>(std::popcount(bits));
    });
    return sum;
  }
  // visit(vertex) for every member in [first, last), in order.
  template <class Visit>
  void for_each(VertexId first, VertexId last, Visit&& visit) const {
    for_each_word(first, last, [&](std::size_t word, std::uint64_t bits) {
      for (; bits != 0; bits &= bits - 1)
        visit(static_cast<VertexId>(word * 64 + static_cast<unsigned>(std::countr_zero(bits))));
    });
  }
  // visit(index of word, its members in the range), for words that have some.
  template <class Visit>
  void for_each_word(VertexId first, VertexId last, Visit&& visit) const {
    if (first >= last) return;
    const std::size_t begin = first / 64, end = (static_cast<std::size_t>(last) - 1) / 64;
    for (std::size_t w = begin; w <= end; ++w) {
      // relaxed: a word at the range's ends may get members beyond it meanwhile.
      std::uint64_t bits = atomic_read(words_[w]);
      if (bits == 0) continue;
      if (w == begin) bits &= ~std::uint64_t{0} << first % 64;
      if (w == end) bits &= ~std::uint64_t{0} >> (63 - (last - 1) % 64);
      if (bits != 0) visit(w, bits);
    }
  }
  std::uint64_t* words() noexcept { return words_.data(); }

 private:
  Buffer<std::uint64_t> words_;
};

inline void swap(VertexSet& a, VertexSet& b) noexcept { a.swap(b); }

}  // namespace weft::graph
