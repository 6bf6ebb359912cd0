#include "coll/select/counts.hpp"

#include <algorithm>
#include <initializer_list>

namespace weft::coll {
namespace {

using A = Algorithm;

constexpr std::uint32_t mask(std::initializer_list<Algorithm> algorithms) {
  std::uint32_t bits = 0;
  for (const Algorithm algorithm : algorithms) bits |= 1u << static_cast<unsigned>(algorithm);
  return bits;
}

// By Collective. As the setting COLL_ALGORITHMS has them, and the ways that it cannot choose: by
// switches, and the alltoallv of the background, which sends all blocks at once.
constexpr std::uint32_t kAlgorithms[kNumCollectives] = {
    mask({A::shm, A::two_level, A::dissemination, A::by_switch}),
    mask({A::shm, A::two_level, A::binomial, A::scatter_allgather, A::chain, A::pipeline,
          A::two_trees, A::native, A::by_switch}),
    mask({A::shm, A::two_level, A::circulant, A::binomial, A::rabenseifner, A::by_switch}),
    mask({A::shm, A::two_level, A::circulant, A::recursive_doubling, A::rabenseifner, A::ring,
          A::by_switch}),
    mask({A::shm, A::two_level, A::binomial, A::linear}),
    mask({A::shm, A::two_level, A::binomial, A::linear}),
    mask({A::shm, A::two_level, A::circulant, A::ring, A::by_switch}),
    mask({A::shm, A::two_level, A::bruck, A::pairwise, A::linear}),
    mask({A::shm, A::two_level, A::circulant, A::pairwise, A::binomial, A::by_switch}),
    mask({A::shm, A::two_level, A::recursive_doubling, A::pairwise}),
};

}  // namespace

bool has_algorithm(Collective collective, Algorithm algorithm) noexcept {
  return (kAlgorithms[static_cast<std::size_t>(collective)] >> static_cast<unsigned>(algorithm) &
          1) != 0;
}

stats::Tally* CallCounts::named() noexcept {
  static stats::Tally* const named = [] {
    const auto tallies = stats::tallies();
    for (std::size_t c = 0; c < kNumCollectives; ++c)
      for (std::size_t a = 0; a < kNumAlgorithms; ++a) {
        const auto collective = static_cast<Collective>(c);
        const auto algorithm = static_cast<Algorithm>(a);
        if (!has_algorithm(collective, algorithm)) continue;
        stats::Tally& tally = tallies[place_of(collective, algorithm)];
        const auto set = [](auto& to, std::string_view text) {
          std::copy_n(text.data(), std::min(text.size(), sizeof to - 1), to);
        };
        set(tally.what, name(collective));
        set(tally.way, name(algorithm));
      }
    return tallies.data();
  }();
  return named;
}

CallCounts::CallCounts(bool is_threaded) noexcept : tallies_(named()), is_threaded_(is_threaded) {}

stats::Tally& tally_of(Collective collective, Algorithm algorithm) noexcept {
  return CallCounts::named()[CallCounts::place_of(collective, algorithm)];
}

}  // namespace weft::coll
