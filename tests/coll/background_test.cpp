// The steps of whole collectives over hosts, whatever the mapping of members to hosts: the content
// that comes out, and how often data cross between hosts.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <thread>

#include "coll/background.hpp"
#include "player.hpp"

namespace weft::test {
namespace {

using namespace coll;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Cell block_of(int member, std::size_t position) { return {at(member) * 1009 + position + 1, 3}; }
Cell vector_of(int member, std::size_t position) {
  const std::uint64_t x = at(member) * 7919 + position * 31 + 17;
  return {x * x % 1'000'003 + 1, x * 104'729 % 998'244};
}
Cell result_of(int num, std::size_t position) {
  Cell result = vector_of(0, position);
  for (int m = 1; m < num; ++m) result = compose(result, vector_of(m, position));
  return result;
}

// The hosts of members, by what they are called.
using Mapping = std::vector<int>;

Mapping in_a_row(int hosts, int each) {
  Mapping mapping;
  for (int h = 0; h < hosts; ++h) mapping.insert(mapping.end(), at(each), h);
  return mapping;
}
Mapping in_turn(int hosts, int each) {
  Mapping mapping;
  for (int i = 0; i < hosts * each; ++i) mapping.push_back(i % hosts);
  return mapping;
}

const std::vector<Mapping> kMappings = {
    {0, 0, 1},          in_a_row(2, 2), in_turn(2, 2),         {2, 0, 0, 1, 2, 0},
    {0, 0, 0, 1, 2, 2}, in_a_row(4, 4), in_turn(4, 4),         {0, 1, 1, 0, 0, 1, 0},
    in_a_row(3, 7),     in_turn(5, 3),  {3, 3, 3, 3, 3, 0, 3},
};

// The plans of all members, played.
Played played(const Mapping& mapping, std::vector<MemberMemory>& memory, std::size_t unit,
              const std::function<void(const Members&, Plan&)>& write,
              const Choices& choices = {}) {
  const int n = static_cast<int>(mapping.size());
  std::vector<Plan> plans(mapping.size());
  for (int m = 0; m < n; ++m) {
    Placement placement;
    placement.reserve(mapping.size(), mapping.size());
    placement.assign(m, n, [&](int member) { return mapping[at(member)]; });
    write({m, n, &placement, &choices}, plans[at(m)]);
  }
  Costs costs;
  costs.host = mapping;
  return play(plans, memory, unit, costs);
}

const std::vector<std::string> kNothing;

TEST_CASE("steps of a broadcast over hosts") {
  for (const Mapping& mapping : kMappings)
    for (int root = 0; root < static_cast<int>(mapping.size()); ++root)
      for (const std::size_t bytes : {std::size_t{5}, std::size_t{40'000}}) {
        if (bytes > 5 && root > 1) continue;
        std::vector<MemberMemory> memory(mapping.size());
        for (auto& own : memory) own.output.resize(bytes);
        for (std::size_t i = 0; i < bytes; ++i) memory[at(root)].output[i] = block_of(root, i);
        const std::vector<Cell> expected = memory[at(root)].output;
        const Played result = played(mapping, memory, 1, [&](const Members& members, Plan& plan) {
          write_bcast_steps(members, plan, bytes, root);
        });
        REQUIRE(result.errors == kNothing);
        for (const auto& own : memory) REQUIRE(own.output == expected);
      }
}

TEST_CASE("steps of an allgather over hosts") {
  for (const Mapping& mapping : kMappings)
    for (const std::size_t bytes : {1u, 3u}) {
      std::vector<MemberMemory> memory(mapping.size());
      std::vector<Cell> expected;
      for (std::size_t m = 0; m < mapping.size(); ++m)
        for (std::size_t i = 0; i < bytes; ++i)
          expected.push_back(block_of(static_cast<int>(m), i));
      for (std::size_t m = 0; m < mapping.size(); ++m) {
        memory[m].output.resize(expected.size());
        for (std::size_t i = m * bytes; i < (m + 1) * bytes; ++i) memory[m].output[i] = expected[i];
        memory[m].input = memory[m].output;  // nothing reads it
      }
      const Played result = played(mapping, memory, 1, [&](const Members& members, Plan& plan) {
        write_allgather_steps(members, plan, bytes);
      });
      REQUIRE(result.errors == kNothing);
      for (const auto& own : memory) REQUIRE(own.output == expected);
    }
}

// With an operation that does not commute: it keeps the order of ranks, host by host or not.
TEST_CASE("steps of reductions over hosts") {
  constexpr std::size_t kUnit = 16;
  for (const Mapping& mapping : kMappings) {
    const int n = static_cast<int>(mapping.size());
    for (const std::size_t count : {std::size_t{1}, at(n) + 1, std::size_t{1000}})
      for (int root = -1; root < (count == 1 ? n : 2); ++root) {
        std::vector<MemberMemory> memory(mapping.size());
        std::vector<Cell> expected;
        for (std::size_t i = 0; i < count; ++i) expected.push_back(result_of(n, i));
        for (int m = 0; m < n; ++m) {
          auto& own = memory[at(m)];
          for (std::size_t i = 0; i < count; ++i) own.input.push_back(vector_of(m, i));
          own.output = root < 0 ? own.input : std::vector<Cell>(count);
        }
        const Vector vector{count, kUnit};
        const Played result =
            played(mapping, memory, kUnit, [&](const Members& members, Plan& plan) {
              if (root < 0)
                write_allreduce_steps(members, plan, vector, false);
              else
                write_reduce_steps(members, plan, vector, false, root);
            });
        REQUIRE(result.errors == kNothing);
        for (int m = 0; m < n; ++m)
          if (root < 0 || m == root) REQUIRE(memory[at(m)].output == expected);
      }
  }
}

// The same, of all members up to each one.
TEST_CASE("steps of prefix reductions over hosts") {
  constexpr std::size_t kUnit = 16;
  for (const Mapping& mapping : kMappings) {
    const int n = static_cast<int>(mapping.size());
    for (const bool exclusive : {false, true})
      for (const std::size_t count : {std::size_t{1}, at(n) + 1, std::size_t{1000}}) {
        std::vector<MemberMemory> memory(mapping.size());
        for (int m = 0; m < n; ++m)
          for (std::size_t i = 0; i < count; ++i) memory[at(m)].output.push_back(vector_of(m, i));
        const Played result =
            played(mapping, memory, kUnit, [&](const Members& members, Plan& plan) {
              write_scan_steps(members, plan, {count, kUnit}, exclusive);
            });
        REQUIRE(result.errors == kNothing);
        for (int m = exclusive ? 1 : 0; m < n; ++m)
          for (std::size_t i = 0; i < count; ++i)
            REQUIRE(memory[at(m)].output[i] == result_of(exclusive ? m : m + 1, i));
      }
  }
}

// Nobody leaves a barrier before all have come: everyone but those that lead tells, and is told.
TEST_CASE("steps of a barrier over hosts, whatever algorithm broadcasts go by") {
  for (const Mapping& mapping : kMappings)
    for (const Algorithm bcast : {Algorithm::automatic, Algorithm::chain, Algorithm::pipeline,
                                  Algorithm::scatter_allgather}) {
      Choices choices;
      if (bcast != Algorithm::automatic)
        choices.before[static_cast<std::size_t>(Collective::bcast)] = {{bcast}};
      std::vector<MemberMemory> memory(mapping.size());
      const Played result = played(
          mapping, memory, 1,
          [](const Members& members, Plan& plan) { write_barrier_steps(members, plan); }, choices);
      REQUIRE(result.errors == kNothing);
      const std::set<int> hosts(mapping.begin(), mapping.end());
      CHECK(result.num_messages - result.num_across == 2 * (mapping.size() - hosts.size()));
    }
}

// docs/collectives.md, Reproducible sums.
TEST_CASE("steps of reproducible sums know nothing of hosts") {
  using Steps = std::vector<std::tuple<Step::Kind, int, std::size_t>>;
  const auto steps_on = [](const Mapping& mapping, const Choices& choices) {
    const int n = static_cast<int>(mapping.size());
    std::vector<Steps> all(mapping.size());
    for (int m = 0; m < n; ++m) {
      Placement placement;
      placement.reserve(mapping.size(), mapping.size());
      placement.assign(m, n, [&](int member) { return mapping[at(member)]; });
      const Members members{m, n, &placement, &choices};
      Plan plan;
      for (const bool commutative : {true, false}) {
        for (const std::size_t count : {std::size_t{8}, std::size_t{40'000}}) {
          write_reduce_steps(members, plan, {count, 8}, commutative, 1);
          write_allreduce_steps(members, plan, {count, 8}, commutative);
          write_scan_steps(members, plan, {count, 8}, false);
        }
      }
      for (const Step& step : plan.steps())
        all[at(m)].emplace_back(step.kind, step.peer, step.length);
    }
    return all;
  };
  Choices choices;
  CHECK(steps_on(in_a_row(2, 3), choices) != steps_on(in_turn(2, 3), choices));
  choices.reproducible = true;
  CHECK(steps_on(in_a_row(2, 3), choices) == steps_on(in_turn(2, 3), choices));
  CHECK(steps_on(in_a_row(2, 3), choices) == steps_on(in_a_row(1, 6), choices));
}

// Several threads may begin collectives of one communicator, with roots of their own.
TEST_CASE("steps written by several threads are those written by one") {
  const Mapping mapping = in_turn(3, 4);
  const int n = static_cast<int>(mapping.size());
  const Choices choices;
  Placement placement;
  placement.reserve(mapping.size(), mapping.size());
  placement.assign(4, n, [&](int member) { return mapping[at(member)]; });
  const auto written = [&](int root) {
    Plan plan;
    write_bcast_steps({4, n, &placement, &choices}, plan, 100, root);
    write_reduce_steps({4, n, &placement, &choices}, plan, {100, 1}, true, root);
    std::vector<int> peers;
    for (const Step& step : plan.steps()) peers.push_back(step.peer);
    return peers;
  };
  std::vector<std::vector<int>> expected;
  for (int root = 0; root < n; ++root) expected.push_back(written(root));
  std::atomic<int> num_wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 2000; ++i) {
        const int root = (i * 5 + thread) % n;
        if (written(root) != expected[at(root)]) num_wrong.fetch_add(1);
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(num_wrong.load() == 0);
}

TEST_CASE("steps over 100 hosts of 10 members cross between hosts as seldom as can be") {
  for (const Mapping& mapping : {in_a_row(100, 10), in_turn(100, 10)}) {
    const std::size_t n = mapping.size();
    const auto count = [&](std::size_t cells,
                           const std::function<void(const Members&, Plan&)>& write) {
      std::vector<MemberMemory> memory(n);
      for (auto& own : memory) {
        own.input.resize(cells);
        own.output.resize(cells);
      }
      Played result = played(mapping, memory, 1, write);
      REQUIRE(result.errors == kNothing);
      return result;
    };
    // A message to each host but the root's.
    Played result = count(
        8, [](const Members& members, Plan& plan) { write_bcast_steps(members, plan, 8, 377); });
    CHECK(result.num_across == 99);
    CHECK(result.bytes_across == 99 * 8);
    CHECK(result.num_messages == n - 1);
    result = count(8, [](const Members& members, Plan& plan) {
      write_reduce_steps(members, plan, {8, 1}, true, 377);
    });
    CHECK(result.num_across == 99);
    // Seven rounds among those that lead.
    result =
        count(0, [](const Members& members, Plan& plan) { write_barrier_steps(members, plan); });
    CHECK(result.num_across == 100 * 7);
    // 64 of 100 lead for the others: six rounds, and two messages for each of the 36.
    result = count(8, [](const Members& members, Plan& plan) {
      write_allreduce_steps(members, plan, {8, 1}, true);
    });
    CHECK(result.num_across == 64 * 6 + 2 * 36);
  }
}

}  // namespace
}  // namespace weft::test
