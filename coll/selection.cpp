#include "coll/selection.hpp"

#include <bit>

namespace weft::coll {
namespace {

using A = Algorithm;
using C = Collective;

constexpr std::size_t K = 1024;

// Order matters: the first that applies is taken. The last row of each collective always applies.
// Within a host everything goes through shared memory.
constexpr Rule kRules[] = {
    // collective, local, commutative, power of two, members, bytes, algorithm
    {C::barrier, true, false, false, kAnySize, kAnyBytes, A::shm},
    {C::barrier, false, false, false, kAnySize, kAnyBytes, A::dissemination},
    {C::bcast, true, false, false, kAnySize, kAnyBytes, A::shm},
    {C::bcast, false, false, false, 3, kAnyBytes, A::binomial},
    {C::bcast, false, false, false, kAnySize, 16 * K, A::binomial},
    {C::bcast, false, false, false, kAnySize, 1024 * K, A::scatter_allgather},
    {C::bcast, false, false, false, 16, kAnyBytes, A::chain},
    {C::bcast, false, false, false, kAnySize, kAnyBytes, A::scatter_allgather},
    {C::reduce, true, false, false, kAnySize, kAnyBytes, A::shm},
    {C::reduce, false, false, false, 3, kAnyBytes, A::binomial},
    {C::reduce, false, false, false, kAnySize, 8 * K, A::binomial},
    {C::reduce, false, false, false, kAnySize, kAnyBytes, A::rabenseifner},
    {C::allreduce, true, false, false, kAnySize, kAnyBytes, A::shm},
    {C::allreduce, false, false, false, kAnySize, 4 * K, A::recursive_doubling},
    {C::allreduce, false, true, false, 8, kAnyBytes, A::ring},
    {C::allreduce, false, false, false, kAnySize, kAnyBytes, A::rabenseifner},
    {C::gather, true, false, false, kAnySize, kAnyBytes, A::shm},
    {C::gather, false, false, false, kAnySize, 2 * K, A::binomial},
    {C::gather, false, false, false, kAnySize, kAnyBytes, A::linear},
    {C::scatter, true, false, false, kAnySize, kAnyBytes, A::shm},
    {C::scatter, false, false, false, kAnySize, 2 * K, A::binomial},
    {C::scatter, false, false, false, kAnySize, kAnyBytes, A::linear},
    {C::allgather, true, false, false, kAnySize, kAnyBytes, A::shm},
    {C::allgather, false, false, true, kAnySize, 32 * K, A::recursive_doubling},
    {C::allgather, false, false, false, kAnySize, 4 * K, A::bruck},
    {C::allgather, false, false, false, kAnySize, kAnyBytes, A::ring},
    {C::alltoall, true, false, false, kAnySize, kAnyBytes, A::shm},
    {C::alltoall, false, false, false, 4, kAnyBytes, A::pairwise},
    {C::alltoall, false, false, false, kAnySize, 256, A::bruck},
    {C::alltoall, false, false, false, kAnySize, kAnyBytes, A::pairwise},
    {C::reduce_scatter, true, false, false, kAnySize, kAnyBytes, A::shm},
    {C::reduce_scatter, false, true, false, kAnySize, 64 * K, A::recursive_halving},
    {C::reduce_scatter, false, true, false, kAnySize, kAnyBytes, A::pairwise},
    {C::reduce_scatter, false, false, false, kAnySize, kAnyBytes, A::binomial},
    {C::scan, true, false, false, kAnySize, kAnyBytes, A::shm},
    {C::scan, false, false, false, kAnySize, kAnyBytes, A::recursive_doubling},
};

bool fits(const Rule& rule, const Situation& situation) noexcept {
  return (situation.is_local || !rule.local_only) &&
         (situation.commutative || !rule.commutative_only) &&
         (std::has_single_bit(static_cast<unsigned>(situation.size)) || !rule.powers_of_two);
}

}  // namespace

std::string_view name(Collective collective) noexcept {
  constexpr std::string_view kNames[kNumCollectives] = {
      "barrier", "bcast",     "reduce",   "allreduce",      "gather",
      "scatter", "allgather", "alltoall", "reduce_scatter", "scan"};
  return kNames[static_cast<std::size_t>(collective)];
}

std::string_view name(Algorithm algorithm) noexcept {
  constexpr std::string_view kNames[] = {"auto",
                                         "shm",
                                         "dissemination",
                                         "binomial",
                                         "linear",
                                         "chain",
                                         "scatter_allgather",
                                         "recursive_doubling",
                                         "recursive_halving",
                                         "rabenseifner",
                                         "ring",
                                         "bruck",
                                         "pairwise"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

std::span<const Rule> rules() noexcept { return kRules; }

Choices Choices::from(const Settings& settings) {
  Choices choices;
  for (std::size_t i = 0; i < kNumCollectives; ++i) {
    const std::string_view pick =
        pick_of(settings.text(Setting::coll_algorithms), name(static_cast<Collective>(i)));
    for (int a = 0; a <= static_cast<int>(Algorithm::pairwise); ++a)
      if (pick == name(static_cast<Algorithm>(a))) choices.forced[i] = static_cast<Algorithm>(a);
  }
  return choices;
}

Algorithm choose(Collective collective, const Situation& situation,
                 const Choices& choices) noexcept {
  const Algorithm forced = choices[collective];
  Algorithm first = Algorithm::automatic;
  bool forced_fits = forced != Algorithm::automatic;
  for (const Rule& rule : kRules) {
    if (rule.collective != collective) continue;
    const bool fitting = fits(rule, situation);
    if (rule.algorithm == forced && !fitting) forced_fits = false;
    if (first == Algorithm::automatic && fitting && situation.size <= rule.max_size &&
        situation.bytes <= rule.max_bytes)
      first = rule.algorithm;
  }
  return forced_fits ? forced : first;
}

}  // namespace weft::coll
