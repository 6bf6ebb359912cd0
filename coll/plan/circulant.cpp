#include "coll/plan/circulant.hpp"

namespace weft::coll {
namespace {

constexpr int half(int distance) noexcept { return (distance + 1) / 2; }

}  // namespace

BufferRef reduce_scatter_around(Plan& plan, const Circle& circle, BufferRef input,
                                const Parts& parts) {
  const int n = circle.size(), me = circle.me();
  const std::size_t unit = parts.unit;
  int before = n, distance = half(n);
  // Holds the parts from this member's on, in this order, as many as are never sent away at once.
  const BufferRef sums = plan.scratch(parts.bytes(me, distance));
  const int num_given = n - distance;
  std::size_t at = 0;
  parts.each_run(me, num_given, [&](std::size_t, std::size_t count) {
    plan.receive(circle.team_rank(me + n - distance), sums + at, count * unit);
    at += count * unit;
  });
  parts.each_run(me + distance, num_given, [&](std::size_t first, std::size_t count) {
    plan.send(circle.team_rank(me + distance), input + first * unit, count * unit);
  });
  // With an odd n this member alone had its own part of the last range.
  parts.each_run(me + num_given, distance - num_given, [&](std::size_t first, std::size_t count) {
    plan.copy(sums + parts.bytes(me, num_given), input + first * unit, count * unit);
  });
  plan.wait_all();
  at = 0;
  parts.each_run(me, num_given, [&](std::size_t first, std::size_t count) {
    plan.reduce(input + first * unit, sums + at, count);
    at += count * unit;
  });
  if (distance == 1) return sums;

  const BufferRef arrived = plan.scratch(parts.bytes(me, distance - half(distance)));
  while (distance > 1) {
    before = distance;
    distance = half(distance);
    const std::size_t taken = parts.bytes(me, before - distance);
    const std::size_t given = parts.bytes(me + distance, before - distance);
    if (taken != 0) plan.receive(circle.team_rank(me + n - distance), arrived, taken);
    if (given != 0)
      plan.send(circle.team_rank(me + distance), sums + parts.bytes(me, distance), given);
    plan.wait_all();
    plan.reduce(arrived, sums, taken / unit);
  }
  return sums;
}

void allgather_around(Plan& plan, const Circle& circle, BufferRef data, const Parts& parts) {
  const int n = circle.size(), me = circle.me();
  // The distances from 1 on are those of the other direction in reverse order.
  int rounds = 0;
  for (int distance = n; distance > 1; distance = half(distance)) ++rounds;
  const auto distance_of = [&](int round) {
    int distance = n;
    for (int r = rounds; r > round; --r) distance = half(distance);
    return distance;
  };
  for (int round = 0; round < rounds; ++round) {
    const int distance = distance_of(round), num = distance_of(round + 1) - distance;
    parts.each_run(me + distance, num, [&](std::size_t first, std::size_t count) {
      plan.receive(circle.team_rank(me + distance), data + first * parts.unit, count * parts.unit);
    });
    parts.each_run(me, num, [&](std::size_t first, std::size_t count) {
      plan.send(circle.team_rank(me + n - distance), data + first * parts.unit, count * parts.unit);
    });
    plan.wait_all();
  }
}

}  // namespace weft::coll
