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
    item.times = {kUnknownNs, kUnknownNs};
  }
  const std::uint32_t call = item.num_calls++;
  if (call >= kTrial) return item.is_by_switch;
  const bool first = item.is_decided ? item.is_by_switch : guess;
  return (call % 2 == 0) == first;
}

void Trials::note(std::size_t bytes, bool by_switch, std::uint64_t time_ns) noexcept {
  Class& item = of(bytes);
  // The first calls ever make links, and touch memory.
  const bool is_cold = !item.is_decided && item.num_calls <= 2;
  if (!is_in_trial(bytes) || is_cold) return;
  std::uint64_t& least = item.times[by_switch ? 1 : 0];
  least = std::min(least, time_ns);
}

}  // namespace weft::offload
