#include "coll/plan/halving.hpp"

namespace weft::coll {

void fold_in(Plan& plan, const Group& group, const PowerOfTwo& power, Reducer& sums,
             std::size_t count) {
  const int me = group.rank;
  if (me >= 2 * power.extra) return;
  const std::size_t bytes = count * sums.unit;
  if (me % 2 == 0) {
    plan.send(group.team_rank(me + 1), sums.mine, bytes);
    return;
  }
  plan.receive(group.team_rank(me - 1), sums.other, bytes);
  plan.wait_all();
  sums.from_left(plan, 0, count);
}

void fold_out(Plan& plan, const Group& group, const PowerOfTwo& power, BufferRef data,
              std::size_t bytes) {
  const int me = group.rank;
  if (me >= 2 * power.extra) return;
  plan.wait_all();
  if (me % 2 == 0)
    plan.receive(group.team_rank(me + 1), data, bytes);
  else
    plan.send(group.team_rank(me - 1), data, bytes);
}

int first_part(const PowerOfTwo& power, int me, int distance) noexcept {
  // The bit for distance 1 decides the half, the one for 2 the quarter, and so on.
  int first = 0;
  for (int bit = 1, half = power.size / 2; bit < distance; bit *= 2, half /= 2)
    if ((me & bit) != 0) first += half;
  return first;
}

void halve(Plan& plan, const Group& group, const PowerOfTwo& power, Reducer& sums,
           std::size_t count) {
  const std::size_t unit = sums.unit;
  const auto begin = [&](int part) { return part_begin(count, power.size, part); };
  for (int distance = 1; distance < power.size; distance *= 2) {
    const int partner = power.me ^ distance;
    const int half = power.size / distance / 2;
    const int kept = first_part(power, power.me, 2 * distance);
    const int given = first_part(power, partner, 2 * distance);
    const std::size_t kept_begin = begin(kept), kept_count = begin(kept + half) - kept_begin;
    const std::size_t given_begin = begin(given), given_count = begin(given + half) - given_begin;
    const int peer = group.team_rank(power.member(partner));
    plan.exchange(peer, sums.mine + given_begin * unit, given_count * unit, peer,
                  sums.other + kept_begin * unit, kept_count * unit);
    if (partner < power.me)
      sums.from_left(plan, kept_begin, kept_count);
    else
      sums.from_right(plan, kept_begin, kept_count);
  }
}

void double_up(Plan& plan, const Group& group, const PowerOfTwo& power, BufferRef data,
               Vector vector) {
  const auto begin = [&](int part) {
    return part_begin(vector.count, power.size, part) * vector.unit;
  };
  for (int distance = power.size / 2; distance > 0; distance /= 2) {
    const int partner = power.me ^ distance;
    const int half = power.size / distance / 2;
    const int held = first_part(power, power.me, 2 * distance);
    const int missing = first_part(power, partner, 2 * distance);
    const int peer = group.team_rank(power.member(partner));
    plan.exchange(peer, data + begin(held), begin(held + half) - begin(held), peer,
                  data + begin(missing), begin(missing + half) - begin(missing));
  }
}

}  // namespace weft::coll
