#include "coll/selection.hpp"

#include <bit>

namespace weft::coll {
namespace {

using A = Algorithm;
using C = Collective;
using W = Where;

constexpr std::size_t K = 1024;

// Order matters: the first that applies is taken. The last row of each collective always applies.
// Within a host everything goes through shared memory, and between hosts as little as possible.
constexpr Rule kRules[] = {
    // collective, where, commutative, power of two, members, bytes, algorithm
    {C::barrier, W::one_host, false, false, kAnySize, kAnyBytes, A::shm},
    {C::barrier, W::shared_hosts, false, false, kAnySize, kAnyBytes, A::two_level},
    {C::barrier, W::anywhere, false, false, kAnySize, kAnyBytes, A::dissemination},
    {C::bcast, W::one_host, false, false, kAnySize, kAnyBytes, A::shm},
    {C::bcast, W::shared_hosts, false, false, kAnySize, kAnyBytes, A::two_level},
    {C::bcast, W::anywhere, false, false, 3, kAnyBytes, A::binomial},
    {C::bcast, W::anywhere, false, false, kAnySize, 16 * K, A::binomial},
    {C::bcast, W::anywhere, false, false, kAnySize, 128 * K, A::pipeline},
    {C::bcast, W::anywhere, false, false, 16, kAnyBytes, A::chain},
    {C::bcast, W::anywhere, false, false, kAnySize, 2048 * K, A::pipeline},
    {C::bcast, W::anywhere, false, false, 32, kAnyBytes, A::chain},
    {C::bcast, W::anywhere, false, false, kAnySize, kAnyBytes, A::pipeline},
    {C::reduce, W::one_host, false, false, kAnySize, kAnyBytes, A::shm},
    {C::reduce, W::shared_hosts, false, false, kAnySize, kAnyBytes, A::two_level},
    {C::reduce, W::anywhere, false, false, 3, kAnyBytes, A::binomial},
    {C::reduce, W::anywhere, false, false, kAnySize, 8 * K, A::binomial},
    {C::reduce, W::anywhere, false, false, kAnySize, kAnyBytes, A::rabenseifner},
    {C::allreduce, W::one_host, false, false, kAnySize, kAnyBytes, A::shm},
    {C::allreduce, W::shared_hosts, false, false, kAnySize, kAnyBytes, A::two_level},
    {C::allreduce, W::anywhere, false, false, kAnySize, 4 * K, A::recursive_doubling},
    {C::allreduce, W::anywhere, true, false, 8, kAnyBytes, A::ring},
    {C::allreduce, W::anywhere, false, false, kAnySize, kAnyBytes, A::rabenseifner},
    {C::gather, W::one_host, false, false, kAnySize, kAnyBytes, A::shm},
    {C::gather, W::shared_hosts, false, false, kAnySize, 16 * K, A::two_level},
    {C::gather, W::anywhere, false, false, kAnySize, 2 * K, A::binomial},
    {C::gather, W::anywhere, false, false, kAnySize, kAnyBytes, A::linear},
    {C::scatter, W::one_host, false, false, kAnySize, kAnyBytes, A::shm},
    {C::scatter, W::shared_hosts, false, false, kAnySize, 16 * K, A::two_level},
    {C::scatter, W::anywhere, false, false, kAnySize, 2 * K, A::binomial},
    {C::scatter, W::anywhere, false, false, kAnySize, kAnyBytes, A::linear},
    {C::allgather, W::one_host, false, false, kAnySize, kAnyBytes, A::shm},
    {C::allgather, W::shared_hosts, false, false, kAnySize, kAnyBytes, A::two_level},
    {C::allgather, W::anywhere, false, true, kAnySize, 32 * K, A::recursive_doubling},
    {C::allgather, W::anywhere, false, false, kAnySize, 4 * K, A::bruck},
    {C::allgather, W::anywhere, false, false, kAnySize, kAnyBytes, A::ring},
    {C::alltoall, W::one_host, false, false, kAnySize, kAnyBytes, A::shm},
    {C::alltoall, W::shared_hosts, false, false, kAnySize, 2 * K, A::two_level},
    {C::alltoall, W::anywhere, false, false, 4, kAnyBytes, A::pairwise},
    {C::alltoall, W::anywhere, false, false, kAnySize, 256, A::bruck},
    {C::alltoall, W::anywhere, false, false, kAnySize, kAnyBytes, A::pairwise},
    {C::reduce_scatter, W::one_host, false, false, kAnySize, kAnyBytes, A::shm},
    {C::reduce_scatter, W::shared_hosts, false, false, kAnySize, kAnyBytes, A::two_level},
    {C::reduce_scatter, W::anywhere, true, false, kAnySize, 64 * K, A::recursive_halving},
    {C::reduce_scatter, W::anywhere, true, false, kAnySize, kAnyBytes, A::pairwise},
    {C::reduce_scatter, W::anywhere, false, false, kAnySize, kAnyBytes, A::binomial},
    {C::scan, W::one_host, false, false, kAnySize, kAnyBytes, A::shm},
    {C::scan, W::anywhere, false, false, kAnySize, kAnyBytes, A::recursive_doubling},
};

bool fits(const Rule& rule, const Situation& situation) noexcept {
  return (rule.where != Where::one_host || situation.is_local) &&
         (rule.where != Where::shared_hosts || situation.shared_hosts) &&
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
                                         "two_level",
                                         "dissemination",
                                         "binomial",
                                         "linear",
                                         "chain",
                                         "pipeline",
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
