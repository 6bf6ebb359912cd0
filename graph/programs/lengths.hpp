#pragma once
// The lengths of paths, by the weights of edges that shortest paths count. Word is unsigned, in the
// order of lengths; its largest value is "not reached", and no path may be as long. Width is that
// of delta-stepping's buckets.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "weft/graph/types.hpp"

namespace weft::graph {

template <class D>
struct HopLengths {  // every edge has 1
  using Word = D;
  using Width = D;
  static constexpr Weight kUnit = 1;
  static D add(D length, Weight) noexcept { return length + 1; }
  static std::uint64_t bucket(D length, D width) noexcept { return length / width; }
};

template <class D>
struct WholeLengths : HopLengths<D> {
  static D add(D length, Weight weight) noexcept { return length + static_cast<D>(weight); }
};

// The bits of doubles, of weights that are the bits of floats.
struct RealLengths {
  using Word = std::uint64_t;
  using Width = double;
  static constexpr Weight kUnit = std::bit_cast<Weight>(1.0f);
  static constexpr double kLast = 0x1p62;  // the bucket of all that lies beyond, in any order
  static Word add(Word length, Weight weight) noexcept {
    return std::bit_cast<Word>(std::bit_cast<double>(length) + real_weight(weight));
  }
  static std::uint64_t bucket(Word length, double width) noexcept {
    return static_cast<std::uint64_t>(std::min(std::bit_cast<double>(length) / width, kLast));
  }
};

}  // namespace weft::graph
