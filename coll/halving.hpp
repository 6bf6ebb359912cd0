#pragma once
// The frame of the algorithms that work on a power of two of members: fold the others in first,
// reduce-scatter by halving, undo. Keeps rank order, so it serves operations that do not commute.
#include <bit>
#include <vector>

#include "coll/combine.hpp"

namespace weft::coll {

// Members 2i and 2i+1 of the first 2 * extra act as one, the odd one for both.
struct PowerOfTwo {
  int size;   // the power of two
  int extra;  // how many pairs
  int me;     // this member's place among `size`, -1 if another acts for it

  explicit PowerOfTwo(const Team& team) noexcept
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(team.size())))),
        extra(team.size() - size),
        me(team.rank() >= 2 * extra ? team.rank() - extra
                                    : (team.rank() % 2 != 0 ? team.rank() / 2 : -1)) {}
  // The member that acts at a place.
  int member(int place) const noexcept { return place < extra ? 2 * place + 1 : place + extra; }
};

// Brings the vectors of pairs together in sums.mine of the acting member.
Status fold_in(Team& team, Links& links, const PowerOfTwo& power, Combiner& sums,
               std::size_t count);
// Gives the result in `data` back to the members that did not act.
Status fold_out(Team& team, Links& links, const PowerOfTwo& power, void* data, std::size_t bytes);

// Reduce-scatter in log2 steps with the partner at distance 1, 2, 4, ...: each time half of the
// range is given away and the other half combined. `me` ends with the combination of all vectors
// on part `owned_part(power, me)` of `power.size` parts of part_begin().
Status halve(Links& links, const PowerOfTwo& power, Combiner& sums, std::size_t count);

// The first of the `parts` parts that place `me` holds once partners at distances 1 .. below
// `distance` have shared the range out; there are size / distance parts left.
int first_part(const PowerOfTwo& power, int me, int distance) noexcept;

// The reverse of halve(): parts come together at every acting member.
Status double_up(Links& links, const PowerOfTwo& power, std::byte* data, std::size_t count,
                 std::size_t element_bytes);

}  // namespace weft::coll
