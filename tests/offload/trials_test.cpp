// Trials with times of every kind: members agree, the faster way is taken, and few calls go the
// other.
#include "coll/offload/choice/trials.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace weft::testing {
namespace {

using offload::Trials;

struct Members {
  explicit Members(std::size_t count) : trials(count) {}

  // A call of all; `time_ns(member, by_switch)`. Returns its way.
  template <class Time>
  bool call(std::size_t bytes, Time&& time_ns) {
    if (trials[0].is_due(bytes)) {
      Trials::Times sums{};
      for (const Trials& one : trials)
        for (std::size_t way = 0; way < 2; ++way) sums[way] += one.times(bytes)[way];
      for (Trials& one : trials) one.decide(bytes, sums);
    }
    for (const Trials& one : trials) REQUIRE(one.is_due(bytes) == trials[0].is_due(bytes));
    const bool by_switch = trials[0].next_is_by_switch(bytes, false);
    for (std::size_t i = 1; i < trials.size(); ++i)
      REQUIRE(trials[i].next_is_by_switch(bytes, false) == by_switch);
    for (std::size_t i = 0; i < trials.size(); ++i)
      trials[i].note(bytes, by_switch, time_ns(i, by_switch));
    return by_switch;
  }

  std::vector<Trials> trials;
};

TEST_CASE("the faster way is taken, and few calls go the other") {
  for (const bool switch_wins : {false, true}) {
    for (const double noise : {0.0, 0.5}) {
      INFO(switch_wins << " with noise " << noise);
      std::mt19937 random(3);
      std::exponential_distribution<> late(1);
      Members members(7);
      const auto time_ns = [&](std::size_t, bool by_switch) {
        const double us = by_switch == switch_wins ? 20 : 30;
        return static_cast<std::uint64_t>(1000 * us * (1 + noise * late(random)));
      };
      int wrong = 0;
      for (int i = 0; i < 10'000; ++i) wrong += members.call(64, time_ns) != switch_wins ? 1 : 0;
      CHECK(wrong <= (noise > 0 ? 600 : 100));
      CHECK(members.trials[0].is_by_switch(64) == switch_wins);
      // Lengths of another power of two are not known.
      CHECK_FALSE(members.trials[0].is_decided(128));
      CHECK(members.trials[0].is_decided(127));
    }
  }
}

TEST_CASE("trials of a way that is far slower are rare") {
  for (const std::uint64_t times_slower : {2u, 20u, 200u}) {
    Members members(4);
    std::uint64_t total_ns = 0, calls = 0;
    const auto time_ns = [&](std::size_t member, bool by_switch) {
      const std::uint64_t ns = by_switch ? 1'000 * times_slower : 1'000;
      if (member == 0) total_ns += ns, ++calls;
      return ns;
    };
    // Both first trials, which come sooner.
    for (std::uint64_t i = 0; i < 200 * times_slower + 600; ++i) (void)members.call(8, time_ns);
    total_ns = calls = 0;
    for (int i = 0; i < 400'000; ++i) (void)members.call(8, time_ns);
    INFO(times_slower << " times slower");
    CHECK(total_ns <= calls * 1'000 * 51 / 50);
    CHECK(total_ns > calls * 1'000);
  }
}

TEST_CASE("a way that becomes slow is left, and a cold first call decides nothing") {
  Members members(3);
  bool is_lost = false;
  std::array<int, 2> calls{};
  const auto time_ns = [&](std::size_t, bool by_switch) {
    // The first of all members each way: one makes links, the other finds all that it needs.
    if (++calls[by_switch ? 1 : 0] <= 3) return std::uint64_t{by_switch ? 50'000'000u : 1'000u};
    return std::uint64_t{by_switch ? (is_lost ? 400'000u : 10'000u) : 100'000u};
  };
  for (int i = 0; i < 100; ++i) (void)members.call(8, time_ns);
  CHECK(members.trials[0].is_by_switch(8));
  is_lost = true;
  int by_switch = 0;
  for (int i = 0; i < 5000; ++i) by_switch += members.call(8, time_ns) ? 1 : 0;
  CHECK(by_switch <= 1 + static_cast<int>(Trials::kBetween + Trials::kTrial));
  CHECK_FALSE(members.trials[0].is_by_switch(8));
}

}  // namespace
}  // namespace weft::testing
