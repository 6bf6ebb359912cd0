// The steps of whole collectives over hosts, whatever the mapping of members to hosts: the content
// that comes out, and how often data cross between hosts.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <thread>

#include "coll/background/background.hpp"
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
              const std::function<void(const TeamShape&, Plan&)>& write,
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
        const Played result = played(mapping, memory, 1, [&](const TeamShape& team, Plan& plan) {
          write_bcast_steps(team, plan, bytes, root);
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
      const Played result = played(mapping, memory, 1, [&](const TeamShape& team, Plan& plan) {
        write_allgather_steps(team, plan, bytes);
      });
      REQUIRE(result.errors == kNothing);
      for (const auto& own : memory) REQUIRE(own.output == expected);
    }
}

// Blocks of any length, none among them, in places that each member has chosen for itself.
TEST_CASE("steps of an allgather of blocks of any length over hosts") {
  for (const Mapping& mapping : kMappings)
    for (const bool is_tight : {true, false}) {
      const std::size_t n = mapping.size();
      std::vector<std::size_t> counts;
      for (std::size_t m = 0; m < n; ++m) counts.push_back(m * 7 % 5);
      std::vector<std::vector<std::ptrdiff_t>> places(n);
      std::vector<MemberMemory> memory(n);
      std::vector<std::vector<Cell>> expected(n);
      for (std::size_t own = 0; own < n; ++own) {
        std::size_t next = 0;
        for (std::size_t m = 0; m < n; ++m) {
          places[own].push_back(static_cast<std::ptrdiff_t>(next));
          next += counts[m] + (is_tight ? 0 : own % 3);
        }
        memory[own].output.resize(next);
        expected[own].resize(next);
        for (std::size_t m = 0; m < n; ++m)
          for (std::size_t i = 0; i < counts[m]; ++i) {
            const std::size_t to = static_cast<std::size_t>(places[own][m]) + i;
            expected[own][to] = block_of(static_cast<int>(m), i);
            if (m == own) memory[own].output[to] = expected[own][to];
          }
      }
      const Played result = played(mapping, memory, 1, [&](const TeamShape& team, Plan& plan) {
        write_allgatherv_steps(team, plan, counts.data(), places[at(team.rank)].data());
      });
      REQUIRE(result.errors == kNothing);
      for (std::size_t m = 0; m < n; ++m) REQUIRE(memory[m].output == expected[m]);
    }
}

TEST_CASE("steps of a gather and of a scatter over hosts") {
  for (const Mapping& mapping : kMappings) {
    const std::size_t n = mapping.size();
    for (int root = 0; root < static_cast<int>(n); ++root)
      for (const std::size_t bytes : {std::size_t{3}, std::size_t{3000}, std::size_t{20'000}}) {
        if (bytes > 3 && root > 1) continue;
        std::vector<Cell> all;
        for (std::size_t m = 0; m < n; ++m)
          for (std::size_t i = 0; i < bytes; ++i) all.push_back(block_of(static_cast<int>(m), i));
        const auto block = [&](std::size_t m) {
          const auto first = all.begin() + static_cast<std::ptrdiff_t>(m * bytes);
          return std::vector<Cell>(first, first + static_cast<std::ptrdiff_t>(bytes));
        };
        std::vector<MemberMemory> memory(n);
        for (std::size_t m = 0; m < n; ++m)
          if (static_cast<int>(m) != root) memory[m].input = block(m);
        auto& gathered = memory[at(root)].output;
        gathered.resize(all.size());
        std::copy_n(all.begin() + root * static_cast<std::ptrdiff_t>(bytes), bytes,
                    gathered.begin() + root * static_cast<std::ptrdiff_t>(bytes));
        Played result = played(mapping, memory, 1, [&](const TeamShape& team, Plan& plan) {
          write_gather_steps(team, plan, bytes, root);
        });
        REQUIRE(result.errors == kNothing);
        REQUIRE(gathered == all);
        memory.assign(n, {});
        for (std::size_t m = 0; m < n; ++m)
          if (static_cast<int>(m) != root) memory[m].output.resize(bytes);
        memory[at(root)].input = all;
        result = played(mapping, memory, 1, [&](const TeamShape& team, Plan& plan) {
          write_scatter_steps(team, plan, bytes, root);
        });
        REQUIRE(result.errors == kNothing);
        for (std::size_t m = 0; m < n; ++m)
          if (static_cast<int>(m) != root) REQUIRE(memory[m].output == block(m));
      }
  }
}

TEST_CASE("steps of an all-to-all over hosts") {
  for (const Mapping& mapping : kMappings)
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{300}, std::size_t{3000}}) {
      const std::size_t n = mapping.size();
      if (bytes > 1 && n > 8) continue;
      const auto cell = [n](std::size_t from, std::size_t to, std::size_t i) {
        return block_of(static_cast<int>(from * n + to), i);
      };
      std::vector<MemberMemory> memory(n);
      std::vector<std::vector<Cell>> expected(n);
      for (std::size_t m = 0; m < n; ++m) {
        for (std::size_t other = 0; other < n; ++other)
          for (std::size_t i = 0; i < bytes; ++i) {
            memory[m].input.push_back(cell(m, other, i));
            expected[m].push_back(cell(other, m, i));
          }
        memory[m].output.resize(expected[m].size());
      }
      const Played result = played(mapping, memory, 1, [&](const TeamShape& team, Plan& plan) {
        write_alltoall_steps(team, plan, bytes);
      });
      REQUIRE(result.errors == kNothing);
      for (std::size_t m = 0; m < n; ++m) REQUIRE(memory[m].output == expected[m]);
    }
}

TEST_CASE("steps of an alltoall are few, however many members share a host") {
  const Mapping mapping = in_a_row(2, 512);
  Placement placement;
  placement.reserve(mapping.size(), mapping.size());
  placement.assign(0, 1024, [&](int member) { return mapping[at(member)]; });
  const Choices choices;
  Plan plan;
  write_alltoall_steps({0, 1024, &placement, &choices}, plan, 1);
  CHECK(plan.steps().size() < 20'000);
}

TEST_CASE("steps of a reduce-scatter over hosts") {
  constexpr std::size_t kUnit = 16;
  for (const Mapping& mapping : kMappings)
    for (const std::size_t most : {1u, 4u, 300u})
      for (const int way : {0, 1, 2, 3}) {
        const bool is_even = way % 2 == 0, in_place = way >= 2;
        const int n = static_cast<int>(mapping.size());
        std::vector<std::size_t> counts;
        std::size_t count = 0;
        for (int m = 0; m < n; ++m) {
          counts.push_back(is_even ? most : at(m) * 7 % (most + 1));
          count += counts.back();
        }
        if (count == 0) continue;
        std::vector<MemberMemory> memory(mapping.size());
        for (int m = 0; m < n; ++m) {
          auto& own = memory[at(m)];
          own.in_place = in_place;
          auto& input = in_place ? own.output : own.input;
          for (std::size_t i = 0; i < count; ++i) input.push_back(vector_of(m, i));
          own.output.resize(in_place ? count : counts[at(m)]);
        }
        const Played result =
            played(mapping, memory, kUnit, [&](const TeamShape& team, Plan& plan) {
              write_reduce_scatter_steps(team, plan, counts.data(), kUnit, false);
            });
        REQUIRE(result.errors == kNothing);
        std::size_t first = 0;
        for (int m = 0; m < n; first += counts[at(m++)])
          for (std::size_t i = 0; i < counts[at(m)]; ++i)
            REQUIRE(memory[at(m)].output[i] == result_of(n, first + i));
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
            played(mapping, memory, kUnit, [&](const TeamShape& team, Plan& plan) {
              if (root < 0)
                write_allreduce_steps(team, plan, vector, false);
              else
                write_reduce_steps(team, plan, vector, false, root);
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
            played(mapping, memory, kUnit, [&](const TeamShape& team, Plan& plan) {
              write_scan_steps(team, plan, {count, kUnit}, exclusive);
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
          [](const TeamShape& team, Plan& plan) { write_barrier_steps(team, plan); }, choices);
      REQUIRE(result.errors == kNothing);
      const std::set<int> hosts(mapping.begin(), mapping.end());
      CHECK(result.num_messages - result.num_across == 2 * (mapping.size() - hosts.size()));
    }
}

// docs/design/collectives.md, Reproducible sums.
TEST_CASE("steps of reproducible sums know nothing of hosts") {
  using Steps = std::vector<std::tuple<Step::Kind, int, std::size_t>>;
  const auto steps_on = [](const Mapping& mapping, const Choices& choices) {
    const int n = static_cast<int>(mapping.size());
    std::vector<Steps> all(mapping.size());
    for (int m = 0; m < n; ++m) {
      Placement placement;
      placement.reserve(mapping.size(), mapping.size());
      placement.assign(m, n, [&](int member) { return mapping[at(member)]; });
      const TeamShape team{m, n, &placement, &choices};
      Plan plan;
      for (const bool commutative : {true, false}) {
        for (const std::size_t count : {std::size_t{8}, std::size_t{40'000}}) {
          write_reduce_steps(team, plan, {count, 8}, commutative, 1);
          write_allreduce_steps(team, plan, {count, 8}, commutative);
          write_scan_steps(team, plan, {count, 8}, false);
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
                           const std::function<void(const TeamShape&, Plan&)>& write) {
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
    Played result =
        count(8, [](const TeamShape& team, Plan& plan) { write_bcast_steps(team, plan, 8, 377); });
    CHECK(result.num_across == 99);
    CHECK(result.bytes_across == 99 * 8);
    CHECK(result.num_messages == n - 1);
    result = count(8, [](const TeamShape& team, Plan& plan) {
      write_reduce_steps(team, plan, {8, 1}, true, 377);
    });
    CHECK(result.num_across == 99);
    // A message to and from each host but the root's, though members have blocks of their own.
    result =
        count(n, [](const TeamShape& team, Plan& plan) { write_gather_steps(team, plan, 1, 377); });
    CHECK(result.num_across == 99);
    CHECK(result.num_messages == n - 1);
    result = count(
        n, [](const TeamShape& team, Plan& plan) { write_scatter_steps(team, plan, 1, 377); });
    CHECK(result.num_across == 99);
    // Seven rounds among those that lead.
    result =
        count(n, [](const TeamShape& team, Plan& plan) { write_alltoall_steps(team, plan, 1); });
    CHECK(result.num_across == 100 * 7);
    result = count(n, [n](const TeamShape& team, Plan& plan) {
      write_reduce_scatter_steps(team, plan, std::vector<std::size_t>(n, 1).data(), 1, true);
    });
    // Ranges that go around the end are two messages.
    CHECK(result.num_across < 100 * 8);
    CHECK(result.bytes_across == 99 * n);
    // Seven rounds among those that lead.
    result = count(0, [](const TeamShape& team, Plan& plan) { write_barrier_steps(team, plan); });
    CHECK(result.num_across == 100 * 7);
    // 64 of 100 lead for the others: six rounds, and two messages for each of the 36.
    result = count(8, [](const TeamShape& team, Plan& plan) {
      write_allreduce_steps(team, plan, {8, 1}, true);
    });
    CHECK(result.num_across == 64 * 6 + 2 * 36);
  }
}

}  // namespace
}  // namespace weft::test
