// Numbers of contexts: given late again, never while in use, and never the reserved ones.
#include "mpi/comm/context_ids.hpp"

#include <catch2/catch.hpp>
#include <optional>
#include <set>
#include <vector>

using weft::mpi::ContextIds;

TEST_CASE("context numbers are used again, but not while something has them", "[context_ids]") {
  ContextIds ids;
  ids.open(10, 2, 0);
  std::set<std::uint32_t> kept;
  for (int i = 0; i < 3; ++i) kept.insert(ids.take().value());
  // Many times around, with these in the way.
  std::optional<std::uint32_t> last;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t id = ids.take().value();
    CHECK(id >= 2);
    CHECK(id < 10);
    CHECK(kept.count(id) == 0);
    CHECK(last != id);
    last = id;
    ids.give_back(id);
  }
}

TEST_CASE("there are as many context numbers as the range has", "[context_ids]") {
  ContextIds ids;
  ids.open(6, 2, 0);
  std::set<std::uint32_t> taken;
  for (int i = 0; i < 4; ++i) taken.insert(ids.take().value());
  CHECK(taken == std::set<std::uint32_t>{2, 3, 4, 5});
  CHECK(!ids.take());
  ids.give_back(0);  // was never taken
  CHECK(!ids.take());
  ids.give_back(4);
  CHECK(ids.take() == 4);
  CHECK(!ids.take());
}

TEST_CASE("blocks of context numbers are aligned, and free of single ones", "[context_ids]") {
  using weft::mpi::kNumChannels;
  constexpr std::uint32_t kOrigin = 1003, kRange = 6 * kNumChannels;
  ContextIds ids;
  ids.open(kRange, 3, kOrigin);
  std::set<std::uint32_t> taken;
  const std::uint32_t single = ids.take().value();
  taken.insert(single);
  std::vector<std::uint32_t> blocks;
  while (const auto first = ids.take_block()) {
    CHECK((kOrigin + *first) % kNumChannels == 0);
    CHECK(*first + kNumChannels <= kRange);
    for (std::uint32_t i = 0; i < kNumChannels; ++i) CHECK(taken.insert(*first + i).second);
    blocks.push_back(*first);
  }
  CHECK(blocks.size() >= 4);
  // What no block has is still there for single ones.
  while (const auto id = ids.take()) CHECK(taken.insert(*id).second);
  CHECK(taken.size() == kRange - 3);
  CHECK(!ids.take_block());
  ids.give_back(blocks.back());
  CHECK(ids.take_block() == blocks.back());
  ids.give_back(blocks.back());
  CHECK(ids.take().has_value());
  CHECK(!ids.take_block());
}
