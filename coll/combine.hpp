#pragma once
// Combining vectors in rank order, for operations that do not commute.
#include "coll/links.hpp"

namespace weft::coll {

// Two buffers of one vector's size: `mine` holds what was combined so far, `other` what arrives.
// They change roles so that no combination needs a copy: apply() always writes its right operand.
struct Combiner {
  const Reduction& op;
  std::byte* mine;
  std::byte* other;

  // mine = other op mine: `other` comes from lower ranks.
  void from_left(std::size_t offset, std::size_t count) const {
    if (count != 0)
      op.apply(other + offset * op.element_bytes, mine + offset * op.element_bytes, count,
               op.argument);
  }
  // mine = mine op other over the whole vector: `other` comes from higher ranks.
  void from_right(std::size_t count) {
    if (count != 0) op.apply(mine, other, count, op.argument);
    std::swap(mine, other);
  }
};

}  // namespace weft::coll
