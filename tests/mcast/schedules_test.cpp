// Every schedule for 2 to 64 members and 1 to 64 blocks: everybody gets every block once, nobody
// sends what it has not got, and it takes as many steps as it must.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "mcast/schedules/credit.hpp"

using namespace weft::mcast;

namespace {

struct Played {
  std::string wrong;                // empty: nothing is
  std::vector<std::uint64_t> last;  // by member: the step of its last receipt
  std::uint64_t used = 0;           // steps up to the last in which anything moved
};

Played play(const Algorithm& algorithm, const Shape& shape) {
  const auto members = static_cast<std::size_t>(shape.num_members);
  Played played;
  played.last.assign(members, 0);
  std::vector<std::vector<char>> has(members, std::vector<char>(shape.num_blocks, 0));
  has[0].assign(shape.num_blocks, 1);
  const std::uint64_t steps = algorithm.num_steps(shape);
  // Also steps after the end, in which nothing may move.
  for (std::uint64_t step = 0; step < steps + 5; ++step) {
    std::vector<Turn> turns;
    for (int m = 0; m < shape.num_members; ++m) turns.push_back(algorithm.turn(shape, m, step));
    std::size_t num_sends = 0, num_receives = 0;
    for (int m = 0; m < shape.num_members; ++m) {
      const Turn& turn = turns[static_cast<std::size_t>(m)];
      if (turn.send) {
        ++num_sends;
        if (turn.send.peer >= shape.num_members || turn.send.peer == m)
          played.wrong = "no such peer";
        if (!played.wrong.empty()) return played;
        const Move& there = turns[static_cast<std::size_t>(turn.send.peer)].receive;
        if (there != Move{m, turn.send.block}) played.wrong = "sent, but not expected";
        if (turn.send.block >= shape.num_blocks) played.wrong = "no such block";
        if (!played.wrong.empty()) return played;
        if (!has[static_cast<std::size_t>(m)][turn.send.block])
          played.wrong = "sent before it came";
      }
      if (turn.receive) ++num_receives;
    }
    if (num_sends != num_receives) played.wrong = "expected, but not sent";
    if (!played.wrong.empty()) return played;
    for (std::size_t m = 0; m < members; ++m) {
      if (!turns[m].receive) continue;
      char& block = has[m][turns[m].receive.block];
      if (block) played.wrong = "received twice";
      block = 1;
      played.last[m] = step;
      played.used = step + 1;
    }
  }
  for (const auto& blocks : has)
    if (std::accumulate(blocks.begin(), blocks.end(), 0u) != shape.num_blocks)
      played.wrong = "not all arrived";
  return played;
}

void check_all(const Algorithm& algorithm, std::uint64_t (*optimum)(int, std::uint32_t)) {
  for (int members = 2; members <= 64; ++members) {
    for (std::uint32_t blocks = 1; blocks <= 64; ++blocks) {
      INFO(algorithm.name << ", " << members << " members, " << blocks << " blocks");
      const Shape shape{members, blocks, nullptr};
      const Played played = play(algorithm, shape);
      REQUIRE(played.wrong == "");
      REQUIRE(algorithm.num_steps(shape) == optimum(members, blocks));
      REQUIRE(played.used == optimum(members, blocks));
    }
  }
}

}  // namespace

TEST_CASE("sequential takes blocks times receivers") {
  check_all(kSequential, [](int n, std::uint32_t blocks) {
    return std::uint64_t{blocks} * static_cast<std::uint64_t>(n - 1);
  });
}
TEST_CASE("the chain takes blocks + members - 2") {
  check_all(kChain,
            [](int n, std::uint32_t blocks) { return blocks + static_cast<std::uint64_t>(n - 2); });
}
TEST_CASE("the tree takes blocks times ceil(log2 members)") {
  check_all(kBinomialTree, [](int n, std::uint32_t blocks) {
    return std::uint64_t{blocks} * static_cast<std::uint64_t>(ceil_log2(n));
  });
}
TEST_CASE("the pipeline takes blocks + ceil(log2 members) - 1 for every number of members") {
  check_all(kBinomialPipeline, [](int n, std::uint32_t blocks) {
    return blocks + static_cast<std::uint64_t>(ceil_log2(n)) - 1;
  });
}

TEST_CASE("with lanes the pipeline takes each lane's beginning and end more") {
  for (int members = 2; members <= 64; ++members)
    for (const int lanes : {2, 3, 6})
      for (const std::uint32_t blocks : {1u, 2u, 5u, 6u, 7u, 12u, 63u, 64u}) {
        INFO(members << " members, " << lanes << " lanes, " << blocks << " blocks");
        const Shape shape{members, blocks, nullptr, lanes};
        const Played played = play(kBinomialPipeline, shape);
        REQUIRE(played.wrong == "");
        REQUIRE(kBinomialPipeline.num_steps(shape) == played.used);
        const std::uint64_t used_lanes = std::min(static_cast<std::uint32_t>(lanes), blocks);
        REQUIRE(played.used ==
                blocks + used_lanes * (static_cast<std::uint64_t>(ceil_log2(members)) - 1));
      }
}

TEST_CASE("receipts are those of the schedule, and the first of them have credit") {
  const Shape shape{13, 40, nullptr};
  for (int member = 1; member < 13; ++member) {
    Receipts receipts(kBinomialPipeline, shape, member);
    std::vector<Move> all;
    while (const Move move = receipts.next()) all.push_back(move);
    REQUIRE(all.size() == 40);
    std::uint64_t place = 0;
    for (std::uint64_t step = 0; step < kBinomialPipeline.num_steps(shape); ++step)
      if (const Move move = kBinomialPipeline.turn(shape, member, step).receive)
        REQUIRE(all[place++] == move);
    for (int other = 0; other < 13; ++other)
      CHECK(first_credit(kBinomialPipeline, shape, other, member) ==
            (all[0].peer == other ? 1u : 0u) + (all[1].peer == other ? 1u : 0u));
  }
  CHECK_FALSE(uses_credit(kChain, shape));
  CHECK_FALSE(uses_credit(kBinomialPipeline, {2, 40, nullptr}));
  CHECK(uses_credit(kBinomialPipeline, shape));
}

TEST_CASE("the pipeline's members end at most one step apart, those of powers of two together") {
  for (int members = 2; members <= 64; ++members) {
    // With fewer blocks than ceil(log2 members) some have all of them before others have any.
    for (auto blocks = static_cast<std::uint32_t>(ceil_log2(members)); blocks <= 64; ++blocks) {
      INFO(members << " members, " << blocks << " blocks");
      const Played played = play(kBinomialPipeline, {members, blocks, nullptr});
      const auto [first, last] = std::minmax_element(played.last.begin() + 1, played.last.end());
      REQUIRE(*last - *first <= 1);
      if ((members & (members - 1)) == 0) REQUIRE(*last == *first);
    }
  }
}

TEST_CASE("hybrids take their leaders' steps and their largest rack's") {
  const auto pipeline = [](int n, std::uint32_t blocks) {
    return n < 2 ? 0 : blocks + static_cast<std::uint64_t>(ceil_log2(n)) - 1;
  };
  for (int members = 2; members <= 64; ++members) {
    for (const int racks : {1, 2, 3, 4, 7, 16, members}) {
      for (const bool is_cyclic : {false, true}) {
        std::vector<int> rack_of;
        for (int m = 0; m < members; ++m)
          rack_of.push_back(1000 - (is_cyclic ? m % racks : m * racks / members));
        const Racks in(rack_of, members);
        for (const std::uint32_t blocks : {1u, 2u, 3u, 5u, 16u, 64u}) {
          INFO(members << " members, " << racks << " racks, " << blocks << " blocks");
          const Shape shape{members, blocks, &in};
          const std::uint64_t leaders = pipeline(in.num_racks(), blocks);
          const std::uint64_t inside = pipeline(in.largest(), blocks);
          Played played = play(kHybrid, shape);
          REQUIRE(played.wrong == "");
          REQUIRE(played.used == leaders + inside);
          REQUIRE(kHybrid.num_steps(shape) == leaders + inside);
          played = play(kHybridBlocks, shape);
          REQUIRE(played.wrong == "");
          const auto before = static_cast<std::uint64_t>(ceil_log2(in.num_racks()));
          const std::uint64_t both = inside > 0 ? 2 * (before + inside) : 2 * leaders - 1;
          REQUIRE(played.used == both);
          REQUIRE(kHybridBlocks.num_steps(shape) == both);
        }
      }
    }
  }
}

TEST_CASE("neighbors are all whom a member ever meets, few of them, and each other's") {
  for (int members = 2; members <= 64; ++members) {
    std::vector<int> rack_of;
    for (int m = 0; m < members; ++m) rack_of.push_back(m / 5);
    const Racks racks(rack_of, members);
    for (const Algorithm* algorithm : algorithms()) {
      INFO(algorithm->name << ", " << members << " members");
      std::vector<std::vector<int>> found;
      for (int m = 0; m < members; ++m) found.push_back(neighbors(*algorithm, racks, members, m));
      const Shape shape{members, 64, &racks};
      for (std::uint64_t step = 0; step < algorithm->num_steps(shape); ++step)
        for (int m = 0; m < members; ++m)
          if (const Turn turn = algorithm->turn(shape, m, step); turn.send)
            REQUIRE(std::binary_search(found[static_cast<std::size_t>(m)].begin(),
                                       found[static_cast<std::size_t>(m)].end(), turn.send.peer));
      for (int m = 0; m < members; ++m)
        for (const int other : found[static_cast<std::size_t>(m)]) {
          const auto& theirs = found[static_cast<std::size_t>(other)];
          REQUIRE(std::binary_search(theirs.begin(), theirs.end(), m));
        }
      if (algorithm == &kBinomialPipeline)
        for (const auto& mine : found)
          REQUIRE(mine.size() <= 2 * static_cast<std::size_t>(ceil_log2(members)) + 1);
    }
  }
}

TEST_CASE("a schedule of one member, and of 512, is as it must be") {
  const Racks alone({}, 1);
  for (const Algorithm* algorithm : algorithms()) CHECK(algorithm->num_steps({1, 10, &alone}) == 0);
  for (const int members : {127, 200, 511, 512}) {
    const Played played = play(kBinomialPipeline, {members, 100, nullptr});
    CHECK(played.wrong == "");
    CHECK(played.used == 100 + static_cast<std::uint64_t>(ceil_log2(members)) - 1);
  }
}
