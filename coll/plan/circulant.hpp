#pragma once
// Reduce-scatter and allgather in ceil(log2 n) rounds for any number of members (J. L. Träff,
// "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms", 2024; the allgather with
// distances that double is that of Bruck et al. 1997). Distances halve, rounded up: n, ceil(n / 2),
// ..., 1; in a round with distance s, after one with distance t, a member passes on what it has of
// the parts from s to t places after its own. A range of parts that goes past the last one is two
// messages, so that nothing is copied to be in order. Combines in rotated order, but each part in
// one place.
#include <algorithm>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

// Who owns what of a vector, by place in the circle: parts of these lengths, or as equal as can be.
struct Parts {
  int size;
  std::size_t count, unit;
  const std::size_t* lengths = nullptr;  // elements

  std::size_t begin(int part) const noexcept {  // elements
    if (lengths == nullptr) return part_begin(count, size, part);
    std::size_t sum = 0;
    for (int p = 0; p < part; ++p) sum += lengths[p];
    return sum;
  }
  // Calls use(first element, elements) for `num` parts from `part` on, going around: once or twice,
  // and not for nothing.
  template <class Use>
  void each_run(int part, int num, const Use& use) const {
    const auto call = [&](int first, int last) {
      if (const std::size_t from = begin(first), to = begin(last); from != to) use(from, to - from);
    };
    part %= size;
    call(part, std::min(part + num, size));
    if (part + num > size) call(0, part + num - size);
  }
  std::size_t bytes(int part, int num) const noexcept {
    std::size_t sum = 0;
    each_run(part, num, [&](std::size_t, std::size_t elements) { sum += elements * unit; });
    return sum;
  }
};

// The combination of everybody's part of this member, in memory of the plan's own; nothing is under
// way any more. input: a whole vector.
BufferRef reduce_scatter_around(Plan& plan, const Circle& circle, BufferRef input,
                                const Parts& parts);

// data: the vector, this member's part in its place.
void allgather_around(Plan& plan, const Circle& circle, BufferRef data, const Parts& parts);

}  // namespace weft::coll
