#include "coll/offload/choice/trials.hpp"

#include <algorithm>

namespace weft::offload {

void Trials::decide(std::size_t bytes, const Times& sums) noexcept {
  Class& item = of(bytes);
  ++item.num_calls;  // no call, but the trial is over
  // What differs less than this is noise.
  const std::uint64_t margin = sums[item.is_by_switch ? 1 : 0] / 32;
  if (!item.is_decided)
    item.is_by_switch = sums[1] < sums[0];
  else if (item.is_by_switch ? sums[0] + margin < sums[1] : sums[1] + margin < sums[0])
    item.is_by_switch = !item.is_by_switch;
  item.is_decided = true;
  // What a trial adds, in calls of the faster way.
  const auto [better, worse] = std::minmax(sums[0], sums[1]);
  const double added =
      kTrial / 2 *
      (static_cast<double>(worse) / static_cast<double>(std::max<std::uint64_t>(1, better)) - 1);
  item.between =
      static_cast<std::uint32_t>(std::clamp<double>(added * kMostCost, kBetween, kRarest));
}

bool Trials::next_is_by_switch(std::size_t bytes, bool guess) noexcept {
  Class& item = of(bytes);
  if (item.num_calls > kTrial + (item.is_tried_twice ? item.between : item.between / kSooner)) {
    item.is_tried_twice = true;
    item.num_calls = 0;
    item.ways = {};
  }
  const std::uint32_t call = item.num_calls++;
  if (call >= kTrial) return item.is_by_switch;
  // The way that is taken comes last, so that a trial changes ways as rarely as can be.
  const bool last = item.is_decided ? item.is_by_switch : !guess;
  return (call >= kTrial / 2) == last;
}

void Trials::note(std::size_t bytes, bool by_switch, std::uint64_t time_ns) noexcept {
  Class& item = of(bytes);
  const bool is_first = (item.num_calls - 1) % (kTrial / 2) == 0;
  if (!is_in_trial(bytes) || is_first) return;
  Class::Way& way = item.ways[by_switch ? 1 : 0];
  way.sum_ns += time_ns;
  way.longest_ns = std::max(way.longest_ns, time_ns);
  ++way.count;
}

Trials::Times Trials::times(std::size_t bytes) const noexcept {
  Times times;
  std::ranges::transform(of(bytes).ways, times.begin(), [](const Class::Way& way) {
    return way.count < 2 ? kUnknownNs : (way.sum_ns - way.longest_ns) / (way.count - 1);
  });
  return times;
}

}  // namespace weft::offload
