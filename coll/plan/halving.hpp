#pragma once
// The frame of the algorithms that work on a power of two of members: fold the others in first,
// reduce-scatter by halving, undo. Keeps rank order, so it serves operations that do not commute.
#include <bit>

#include "coll/algorithms/algorithms.hpp"

namespace weft::coll {

// Members 2i and 2i+1 of the first 2 * extra act as one, the odd one for both.
struct PowerOfTwo {
  int size;   // the power of two
  int extra;  // how many pairs
  int me;     // this member's place among `size`, -1 if another acts for it

  explicit PowerOfTwo(const Group& group) noexcept
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size)))),
        extra(group.size - size),
        me(group.rank >= 2 * extra ? group.rank - extra
                                   : (group.rank % 2 != 0 ? group.rank / 2 : -1)) {}
  // The member that acts at a place.
  int member(int place) const noexcept { return place < extra ? 2 * place + 1 : place + extra; }
};

// Two buffers of one vector's size: `mine` holds what was combined so far, `other` what arrives.
// They change roles so that no combination needs a copy: combining always writes the right operand.
struct Reducer {
  std::size_t unit;
  BufferRef mine;
  BufferRef other;

  // Both in the plan's own memory, with this member's vector.
  static Reducer of(Plan& plan, BufferRef input, Vector vector) {
    const Reducer sums{vector.unit, plan.scratch(vector.bytes()), plan.scratch(vector.bytes())};
    plan.copy(sums.mine, input, vector.bytes());
    return sums;
  }
  // mine = other op mine: `other` comes from lower ranks.
  void from_left(Plan& plan, std::size_t offset, std::size_t count) const {
    plan.reduce(other + offset * unit, mine + offset * unit, count);
  }
  // mine = mine op other: `other` comes from higher ranks. Only this range is needed from now on.
  void from_right(Plan& plan, std::size_t offset, std::size_t count) {
    if (count == 0) return;
    plan.reduce(mine + offset * unit, other + offset * unit, count);
    std::swap(mine, other);
  }
};

// Brings the vectors of pairs together in sums.mine of the acting member.
void fold_in(Plan& plan, const Group& group, const PowerOfTwo& power, Reducer& sums,
             std::size_t count);
// Gives the result in `data` back to the members that did not act.
void fold_out(Plan& plan, const Group& group, const PowerOfTwo& power, BufferRef data,
              std::size_t bytes);

// Reduce-scatter in log2 steps with the partner at distance 1, 2, 4, ...: each time half of the
// range is given away and the other half combined. `me` ends with the combination of all vectors
// on part `first_part(power, me, size)` of `power.size` parts of part_begin().
void halve(Plan& plan, const Group& group, const PowerOfTwo& power, Reducer& sums,
           std::size_t count);

// The first of the `parts` parts that place `me` holds once partners at distances 1 .. below
// `distance` have shared the range out; there are size / distance parts left.
int first_part(const PowerOfTwo& power, int me, int distance) noexcept;

// The reverse of halve(): parts come together at every acting member.
void double_up(Plan& plan, const Group& group, const PowerOfTwo& power, BufferRef data,
               Vector vector);

}  // namespace weft::coll
