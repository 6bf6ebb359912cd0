#pragma once
// How often each collective of this process took each algorithm, and the bytes of these calls (as
// in the rules: of the entire vector for reductions, of one block for the others). The counts are
// those of base/tally.hpp: WEFT_STATS, weft-info --attach and MPI_T show them. Any thread.
#include <cstddef>

#include "base/tally.hpp"
#include "coll/select/selection.hpp"

namespace weft::coll {

// Returns true if the collective has that algorithm: by the table, by the settings, by switches.
bool has_algorithm(Collective collective, Algorithm algorithm) noexcept;

// The count of a pair, for which has_algorithm() is true.
stats::Tally& tally_of(Collective collective, Algorithm algorithm) noexcept;

// Counts the calls of a team.
class CallCounts {
 public:
  CallCounts() = default;  // counts nothing
  // is_threaded: other threads may count calls of other teams at the same time.
  explicit CallCounts(bool is_threaded) noexcept;
  void add(Collective collective, Algorithm algorithm, std::size_t bytes) const noexcept {
    if (tallies_ != nullptr) tallies_[place_of(collective, algorithm)].add(bytes, is_threaded_);
  }

 private:
  friend stats::Tally& tally_of(Collective collective, Algorithm algorithm) noexcept;
  static constexpr std::size_t place_of(Collective collective, Algorithm algorithm) noexcept {
    return static_cast<std::size_t>(collective) * kNumAlgorithms +
           static_cast<std::size_t>(algorithm);
  }
  static constexpr std::size_t kNumAlgorithms = static_cast<std::size_t>(Algorithm::by_switch) + 1;
  static_assert(kNumCollectives * kNumAlgorithms <= stats::kNumTallies);
  static stats::Tally* named() noexcept;

  stats::Tally* tallies_ = nullptr;
  bool is_threaded_ = false;
};

}  // namespace weft::coll
