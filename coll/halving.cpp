#include "coll/halving.hpp"

namespace weft::coll {

Status fold_in(Team& team, Links& links, const PowerOfTwo& power, Combiner& sums,
               std::size_t count) {
  const int me = team.rank();
  if (me >= 2 * power.extra) return {};
  const std::size_t bytes = count * sums.op.element_bytes;
  if (me % 2 == 0) return links.send(sums.mine, bytes, me + 1);
  WEFT_COLL_TRY(links.receive(sums.other, bytes, me - 1));
  sums.from_left(0, count);
  return {};
}

Status fold_out(Team& team, Links& links, const PowerOfTwo& power, void* data, std::size_t bytes) {
  const int me = team.rank();
  if (me >= 2 * power.extra) return {};
  return me % 2 == 0 ? links.receive(data, bytes, me + 1) : links.send(data, bytes, me - 1);
}

int first_part(const PowerOfTwo& power, int me, int distance) noexcept {
  // The bit for distance 1 decides the half, the one for 2 the quarter, and so on.
  int first = 0;
  for (int bit = 1, half = power.size / 2; bit < distance; bit *= 2, half /= 2)
    if ((me & bit) != 0) first += half;
  return first;
}

Status halve(Links& links, const PowerOfTwo& power, Combiner& sums, std::size_t count) {
  const std::size_t unit = sums.op.element_bytes;
  const auto begin = [&](int part) { return part_begin(count, power.size, part); };
  for (int distance = 1; distance < power.size; distance *= 2) {
    const int partner = power.me ^ distance;
    const int half = power.size / distance / 2;
    const int kept = first_part(power, power.me, 2 * distance);
    const int given = first_part(power, partner, 2 * distance);
    const std::size_t kept_begin = begin(kept), kept_count = begin(kept + half) - kept_begin;
    const std::size_t given_begin = begin(given), given_count = begin(given + half) - given_begin;
    WEFT_COLL_TRY(links.exchange(sums.mine + given_begin * unit, given_count * unit,
                                 power.member(partner), sums.other + kept_begin * unit,
                                 kept_count * unit, power.member(partner)));
    if (partner < power.me) {
      sums.from_left(kept_begin, kept_count);
    } else if (kept_count != 0) {
      // Only the kept range is needed from now on, so the buffers may change roles.
      sums.op.apply(sums.mine + kept_begin * unit, sums.other + kept_begin * unit, kept_count,
                    sums.op.argument);
      std::swap(sums.mine, sums.other);
    }
  }
  return {};
}

Status double_up(Links& links, const PowerOfTwo& power, std::byte* data, std::size_t count,
                 std::size_t element_bytes) {
  const auto begin = [&](int part) { return part_begin(count, power.size, part) * element_bytes; };
  for (int distance = power.size / 2; distance > 0; distance /= 2) {
    const int partner = power.me ^ distance;
    const int half = power.size / distance / 2;
    const int held = first_part(power, power.me, 2 * distance);
    const int missing = first_part(power, partner, 2 * distance);
    WEFT_COLL_TRY(links.exchange(data + begin(held), begin(held + half) - begin(held),
                                 power.member(partner), data + begin(missing),
                                 begin(missing + half) - begin(missing), power.member(partner)));
  }
  return {};
}

}  // namespace weft::coll
