#pragma once
// The frame of the algorithms that work on a power of two of members: fold the others in first,
// reduce-scatter by halving, undo. Keeps rank order, so it works for operations that do not
// commute.
#include <bit>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

// The power of two. Members 2i and 2i+1 of the first 2 * extra act as one, the odd one for both.
struct PowerOfTwo {
  int size;   // the power of two
  int extra;  // the number of pairs
  int me;     // this member's number among `size`, -1 if another acts for it

  explicit PowerOfTwo(const Group& group) noexcept
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size)))),
        extra(group.size - size),
        me(group.rank >= 2 * extra ? group.rank - extra
                                   : (group.rank % 2 != 0 ? group.rank / 2 : -1)) {}
  // The member that acts as number `place`.
  int member(int place) const noexcept { return place < extra ? 2 * place + 1 : place + extra; }
};

// Two buffers of one vector's size: `mine` holds the reduction so far, `other` the vector that
// arrives. They change roles so that no reduction needs a copy: reducing always writes the right
// operand.
struct Reducer {
  std::size_t unit;
  BufferRef mine;
  BufferRef other;

  // Makes both in scratch memory of the plan; `mine` is a copy of this member's vector.
  static Reducer of(Plan& plan, BufferRef input, Vector vector) {
    const Reducer sums{vector.unit, plan.scratch(vector.bytes()), plan.scratch(vector.bytes())};
    plan.copy(sums.mine, input, vector.bytes());
    return sums;
  }
  // mine = other op mine: `other` comes from lower ranks.
  void from_left(Plan& plan, std::size_t offset, std::size_t count) const {
    plan.reduce(other + offset * unit, mine + offset * unit, count);
  }
  // mine = mine op other: `other` comes from higher ranks. Only this range is valid from now on.
  void from_right(Plan& plan, std::size_t offset, std::size_t count) {
    if (count == 0) return;
    plan.reduce(mine + offset * unit, other + offset * unit, count);
    std::swap(mine, other);
  }
};

// Reduces the vectors of each pair into sums.mine of the acting member.
void fold_in(Plan& plan, const Group& group, const PowerOfTwo& power, Reducer& sums,
             std::size_t count);
// Sends the result in `data` to the members that did not act.
void fold_out(Plan& plan, const Group& group, const PowerOfTwo& power, BufferRef data,
              std::size_t bytes);

// Reduce-scatter in log2 steps with the partner at distance 1, 2, 4, ...: each time half of the
// range is sent away and the other half reduced. `me` ends with the reduction of all vectors on
// part `first_part(power, me, size)` of `power.size` parts of part_begin().
void halve(Plan& plan, const Group& group, const PowerOfTwo& power, Reducer& sums,
           std::size_t count);

// The first of the parts that number `me` holds once partners at distances 1 .. below `distance`
// have divided the range; there are size / distance parts left.
int first_part(const PowerOfTwo& power, int me, int distance) noexcept;

// The reverse of halve(): every acting member collects all parts.
void double_up(Plan& plan, const Group& group, const PowerOfTwo& power, BufferRef data,
               Vector vector);

}  // namespace weft::coll
