#include "coll/select/selection.hpp"

#include <algorithm>

namespace weft::coll {
namespace {

using A = Algorithm;
using C = Collective;
using W = Where;

constexpr std::size_t K = 1024;

// Order matters: the first rule that applies is taken. The last row of each collective always
// applies. Within a host all data go through shared memory, and as little as possible between
// hosts.
constexpr Rule kRules[] = {
    // collective, where, commutative, members, bytes, algorithm
    {C::barrier, W::one_host, false, kAnySize, kAnyBytes, A::shm},
    {C::barrier, W::shared_hosts, false, kAnySize, kAnyBytes, A::two_level},
    {C::barrier, W::anywhere, false, kAnySize, kAnyBytes, A::dissemination},
    {C::bcast, W::one_host, false, kAnySize, kAnyBytes, A::shm},
    {C::bcast, W::shared_hosts, false, kAnySize, kAnyBytes, A::two_level},
    {C::bcast, W::anywhere, false, 2, kAnyBytes, A::binomial},
    {C::bcast, W::anywhere, false, 32, 16 * K, A::binomial},
    {C::bcast, W::anywhere, false, 8, 256 * K, A::two_trees},
    {C::bcast, W::anywhere, false, 8, kAnyBytes, A::chain},
    {C::bcast, W::anywhere, false, kAnySize, 8 * K, A::binomial},
    {C::bcast, W::anywhere, false, kAnySize, kAnyBytes, A::two_trees},
    {C::reduce, W::one_host, false, kAnySize, kAnyBytes, A::shm},
    {C::reduce, W::shared_hosts, false, kAnySize, kAnyBytes, A::two_level},
    {C::reduce, W::anywhere, false, kAnySize, 8 * K, A::binomial},
    {C::reduce, W::anywhere, false, 2, 32 * K, A::binomial},
    {C::reduce, W::anywhere, true, kAnySize, kAnyBytes, A::circulant},
    {C::reduce, W::anywhere, false, kAnySize, kAnyBytes, A::rabenseifner},
    {C::allreduce, W::one_host, false, kAnySize, kAnyBytes, A::shm},
    {C::allreduce, W::shared_hosts, false, kAnySize, kAnyBytes, A::two_level},
    {C::allreduce, W::anywhere, false, kAnySize, 8 * K, A::recursive_doubling},
    {C::allreduce, W::anywhere, false, 2, 32 * K, A::recursive_doubling},
    {C::allreduce, W::anywhere, true, 4, 128 * K, A::circulant},
    {C::allreduce, W::anywhere, true, 4, kAnyBytes, A::ring},
    {C::allreduce, W::anywhere, true, kAnySize, 1024 * K, A::circulant},
    {C::allreduce, W::anywhere, true, 8, kAnyBytes, A::ring},
    {C::allreduce, W::anywhere, true, kAnySize, kAnyBytes, A::circulant},
    {C::allreduce, W::anywhere, false, kAnySize, kAnyBytes, A::rabenseifner},
    {C::gather, W::one_host, false, kAnySize, kAnyBytes, A::shm},
    {C::gather, W::shared_hosts, false, kAnySize, 16 * K, A::two_level},
    {C::gather, W::anywhere, false, kAnySize, 2 * K, A::binomial},
    {C::gather, W::anywhere, false, kAnySize, kAnyBytes, A::linear},
    {C::scatter, W::one_host, false, kAnySize, kAnyBytes, A::shm},
    {C::scatter, W::shared_hosts, false, kAnySize, 16 * K, A::two_level},
    {C::scatter, W::anywhere, false, kAnySize, 2 * K, A::binomial},
    {C::scatter, W::anywhere, false, kAnySize, kAnyBytes, A::linear},
    {C::allgather, W::one_host, false, kAnySize, kAnyBytes, A::shm},
    {C::allgather, W::shared_hosts, false, kAnySize, kAnyBytes, A::two_level},
    {C::allgather, W::anywhere, false, kAnySize, 1024 * K, A::circulant},
    {C::allgather, W::anywhere, false, kAnySize, kAnyBytes, A::ring},
    {C::alltoall, W::one_host, false, kAnySize, kAnyBytes, A::shm},
    {C::alltoall, W::shared_hosts, false, kAnySize, 2 * K, A::two_level},
    {C::alltoall, W::anywhere, false, 4, kAnyBytes, A::pairwise},
    {C::alltoall, W::anywhere, false, kAnySize, 256, A::bruck},
    {C::alltoall, W::anywhere, false, 128, kAnyBytes, A::pairwise},
    {C::alltoall, W::anywhere, false, kAnySize, 1 * K, A::bruck},
    {C::alltoall, W::anywhere, false, kAnySize, kAnyBytes, A::pairwise},
    {C::reduce_scatter, W::one_host, false, kAnySize, kAnyBytes, A::shm},
    {C::reduce_scatter, W::shared_hosts, false, kAnySize, kAnyBytes, A::two_level},
    {C::reduce_scatter, W::anywhere, true, 4, 128 * K, A::circulant},
    {C::reduce_scatter, W::anywhere, true, 4, kAnyBytes, A::pairwise},
    {C::reduce_scatter, W::anywhere, true, kAnySize, 64 * 1024 * K, A::circulant},
    {C::reduce_scatter, W::anywhere, true, kAnySize, kAnyBytes, A::pairwise},
    {C::reduce_scatter, W::anywhere, false, kAnySize, kAnyBytes, A::binomial},
    {C::scan, W::one_host, false, kAnySize, kAnyBytes, A::shm},
    {C::scan, W::shared_hosts, false, kAnySize, kAnyBytes, A::two_level},
    {C::scan, W::anywhere, false, kAnySize, 8 * K, A::recursive_doubling},
    {C::scan, W::anywhere, false, 32, kAnyBytes, A::pairwise},
    {C::scan, W::anywhere, false, kAnySize, 32 * K, A::recursive_doubling},
    {C::scan, W::anywhere, false, 256, kAnyBytes, A::pairwise},
    {C::scan, W::anywhere, false, kAnySize, 256 * K, A::recursive_doubling},
    {C::scan, W::anywhere, false, kAnySize, kAnyBytes, A::pairwise},
};

bool fits(const Rule& rule, const Situation& situation) noexcept {
  return (rule.where != Where::one_host || situation.is_local) &&
         (rule.where != Where::shared_hosts || situation.shared_hosts) &&
         (situation.commutative || !rule.commutative_only);
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
                                         "two_trees",
                                         "scatter_allgather",
                                         "recursive_doubling",
                                         "circulant",
                                         "rabenseifner",
                                         "ring",
                                         "bruck",
                                         "pairwise",
                                         "native",
                                         "switch"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

std::span<const Rule> rules() noexcept { return kRules; }

const Rule* rule_of(Collective collective, Algorithm algorithm) noexcept {
  const auto row = std::ranges::find_if(kRules, [&](const Rule& rule) {
    return rule.collective == collective && rule.algorithm == algorithm;
  });
  return row == std::end(kRules) ? nullptr : row;
}

bool Choices::ignores_hosts(Collective collective) const noexcept {
  return reproducible && (collective == C::reduce || collective == C::allreduce ||
                          collective == C::reduce_scatter || collective == C::scan);
}

Choices Choices::from(const Settings& settings) {
  Choices choices;
  choices.reproducible = list_has(settings.text(Setting::coll_algorithms), "reproducible");
  for (std::size_t i = 0; i < kNumCollectives; ++i) {
    const std::string_view picks =
        pick_of(settings.text(Setting::coll_algorithms), name(static_cast<Collective>(i)));
    for_each_pick(picks, [&](const Pick& pick) {
      for (int a = 0; a <= static_cast<int>(kLastAlgorithm); ++a)
        if (const auto algorithm = static_cast<Algorithm>(a); pick.name == name(algorithm))
          choices.before[i].push_back(
              {algorithm, static_cast<int>(std::min<std::int64_t>(pick.max_members, kAnySize)),
               pick.max_bytes == Pick::kAny ? kAnyBytes
                                            : static_cast<std::size_t>(pick.max_bytes)});
      return true;
    });
  }
  return choices;
}

Algorithm choose(Collective collective, const Situation& given, const Choices& choices) noexcept {
  Situation situation = given;
  if (choices.ignores_hosts(collective)) situation.is_local = situation.shared_hosts = false;
  const auto applies = [&](int max_size, std::size_t max_bytes) {
    return situation.size <= max_size && situation.bytes <= max_bytes;
  };
  for (const Choice& choice : choices[collective]) {
    if (!applies(choice.max_size, choice.max_bytes)) continue;
    if (choice.algorithm == A::native && !situation.may_be_copied) continue;
    const Rule* row = rule_of(collective, choice.algorithm);
    if (row == nullptr || fits(*row, situation)) return choice.algorithm;
  }
  for (const Rule& rule : kRules)
    if (rule.collective == collective && fits(rule, situation) &&
        applies(rule.max_size, rule.max_bytes))
      return rule.algorithm;
  return Algorithm::automatic;
}

}  // namespace weft::coll
