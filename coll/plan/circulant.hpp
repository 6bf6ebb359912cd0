#pragma once
// Reduce-scatter and allgather in ceil(log2 n) rounds for any number of members (J. L. Träff,
// "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms", 2024; the allgather with
// distances that double is that of Bruck et al. 1997). Distances halve, rounded up: n, ceil(n / 2),
// ..., 1; in a round with distance s, after one with distance t, a member passes on what it has of
// the parts from s to t positions after its own. A range of parts that wraps around takes two
// messages, so that nothing is copied to be in order. Reduces in rotated order, but each part on
// one member.
#include <algorithm>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

// The parts of a vector, by number in the circle: with these lengths, or as equal as possible.
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
  // Calls use(first element, elements) for `num` parts from `part` on, wrapping around: once or
  // twice, never with zero elements.
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

// Returns the reduction of this member's part over all members, in scratch memory of the plan; no
// message is under way any more. input: a complete vector.
BufferRef reduce_scatter_around(Plan& plan, const Circle& circle, BufferRef input,
                                const Parts& parts);

// data: the vector, with this member's part at its position.
void allgather_around(Plan& plan, const Circle& circle, BufferRef data, const Parts& parts);

}  // namespace weft::coll
