#pragma once
// Timing for --tune: in rounds, of which the median counts.
#include <algorithm>
#include <vector>

namespace weft {

inline constexpr int kRounds = 15;

inline double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

}  // namespace weft
