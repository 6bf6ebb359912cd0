// Every collective by every algorithm, against results computed from the definitions.
#include <catch2/catch.hpp>

#include "calls.hpp"
#include "ranks.hpp"

namespace weft::test {
namespace {

struct Forced {
  Call call;
  std::string_view setting;
  std::string_view algorithm;
};

// Every algorithm that a setting can name.
constexpr Forced kForced[] = {
    {Call::barrier, "COLL_BARRIER", "shm"},
    {Call::barrier, "COLL_BARRIER", "dissemination"},
    {Call::bcast, "COLL_BCAST", "shm"},
    {Call::bcast, "COLL_BCAST", "binomial"},
    {Call::bcast, "COLL_BCAST", "scatter_allgather"},
    {Call::bcast, "COLL_BCAST", "chain"},
    {Call::reduce, "COLL_REDUCE", "shm"},
    {Call::reduce, "COLL_REDUCE", "binomial"},
    {Call::reduce, "COLL_REDUCE", "rabenseifner"},
    {Call::allreduce, "COLL_ALLREDUCE", "shm"},
    {Call::allreduce, "COLL_ALLREDUCE", "recursive_doubling"},
    {Call::allreduce, "COLL_ALLREDUCE", "rabenseifner"},
    {Call::allreduce, "COLL_ALLREDUCE", "ring"},
    {Call::gather, "COLL_GATHER", "shm"},
    {Call::gather, "COLL_GATHER", "binomial"},
    {Call::gather, "COLL_GATHER", "linear"},
    {Call::scatter, "COLL_SCATTER", "shm"},
    {Call::scatter, "COLL_SCATTER", "binomial"},
    {Call::scatter, "COLL_SCATTER", "linear"},
    {Call::allgather, "COLL_ALLGATHER", "shm"},
    {Call::allgather, "COLL_ALLGATHER", "recursive_doubling"},
    {Call::allgather, "COLL_ALLGATHER", "bruck"},
    {Call::allgather, "COLL_ALLGATHER", "ring"},
    {Call::alltoall, "COLL_ALLTOALL", "shm"},
    {Call::alltoall, "COLL_ALLTOALL", "bruck"},
    {Call::alltoall, "COLL_ALLTOALL", "pairwise"},
    {Call::reduce_scatter, "COLL_REDUCE_SCATTER", "shm"},
    {Call::reduce_scatter, "COLL_REDUCE_SCATTER", "recursive_halving"},
    {Call::reduce_scatter, "COLL_REDUCE_SCATTER", "pairwise"},
    {Call::reduce_scatter, "COLL_REDUCE_SCATTER", "binomial"},
    {Call::scan, "COLL_SCAN", "shm"},
    {Call::scan, "COLL_SCAN", "recursive_doubling"},
    {Call::exscan, "COLL_SCAN", "shm"},
    {Call::exscan, "COLL_SCAN", "recursive_doubling"},
};

constexpr int kNumRanks[] = {1, 2, 3, 4, 5, 8};

// Under the thread sanitizer every byte takes its time, and a third of the calls still goes every
// way through the code.
#ifdef __SANITIZE_THREAD__
constexpr int kFewer = 3;
#else
constexpr int kFewer = 1;
#endif

TEST_CASE("teams of many give the right result", "[algorithms]") {
  for (const std::string_view way : {"memory", "messages"})
    for (const int n : {9, 16, 33, 64}) {
      INFO(n << " ranks, by " << way);
      const std::vector<NameValue> settings =
          way == "memory" ? std::vector<NameValue>{}
                          : std::vector<NameValue>{{"COLL_BCAST", "binomial"},
                                                   {"COLL_ALLREDUCE", "recursive_doubling"},
                                                   {"COLL_ALLTOALL", "bruck"},
                                                   {"COLL_BARRIER", "dissemination"}};
      const auto errors = run_ranks(n, settings, [&](coll::Team& team) {
        Calls calls(team, static_cast<std::uint32_t>(n) + 77, 3'000);
        for (int i = 0; i < 12 / kFewer; ++i) calls.any();
        return calls.errors();
      });
      CHECK(errors == std::vector<std::string>());
    }
}

TEST_CASE("every algorithm gives the right result", "[algorithms]") {
  for (const Forced& forced : kForced)
    for (const int n : kNumRanks) {
      INFO(forced.setting << '=' << forced.algorithm << " with " << n << " ranks");
      const auto errors = run_ranks(n, {{forced.setting, forced.algorithm}}, [&](coll::Team& team) {
        Calls calls(team, static_cast<std::uint32_t>(n), 150'000);
        for (int i = 0; i < 25 / kFewer; ++i) calls.one(forced.call);
        return calls.errors();
      });
      CHECK(errors == std::vector<std::string>());
    }
}

// Calls that let members run ahead mix with those that hold them together: what is still being read
// must not be overwritten.
TEST_CASE("random calls in a row, in shared memory") {
  for (const std::string_view crowded : {"yes", "no"})
    for (const int n : kNumRanks)
      for (const std::size_t most : {60u, 5'000u, 1'200'000u}) {
        INFO("crowded " << crowded << ", " << n << " ranks, up to " << most << " bytes");
        const auto errors = run_ranks(n, {{"COLL_CROWDED", crowded}}, [&](coll::Team& team) {
          Calls calls(team, static_cast<std::uint32_t>(most) + static_cast<std::uint32_t>(n), most);
          const int num = (most > 100'000 ? 60 : 400) / kFewer;
          for (int i = 0; i < num; ++i) calls.any();
          return calls.errors();
        });
        CHECK(errors == std::vector<std::string>());
      }
}

TEST_CASE("random calls in a row, written past the caches") {
  for (const std::string_view crowded : {"yes", "no"})
    for (const int n : kNumRanks) {
      INFO("crowded " << crowded << ", " << n << " ranks");
      const auto errors = run_ranks(n, {{"COLL_CROWDED", crowded}}, [&](coll::Team& team) {
        Calls calls(team, static_cast<std::uint32_t>(n) + 7, 100'000);
        for (int i = 0; i < 200 / kFewer; ++i) calls.any();
        return calls.errors();
      });
      CHECK(errors == std::vector<std::string>());
    }
}

TEST_CASE("random calls in a row, all blocks copied directly") {
  for (const std::string_view crowded : {"yes", "no"})
    for (const int n : kNumRanks) {
      INFO("crowded " << crowded << ", " << n << " ranks");
      const auto errors = run_ranks(
          n, {{"COLL_CROWDED", crowded}, {"COLL_DIRECT_MIN_BYTES", "1"}}, [&](coll::Team& team) {
            Calls calls(team, static_cast<std::uint32_t>(n) + 99, 100'000);
            for (int i = 0; i < 200 / kFewer; ++i) calls.any();
            return calls.errors();
          });
      CHECK(errors == std::vector<std::string>());
    }
}

TEST_CASE("a team of some of the ranks, in another order") {
  const auto errors = run_ranks(5, {}, [](coll::Team& all) {
    const std::vector<int> members{4, 0, 3};
    std::vector<std::string> none;
    if (std::find(members.begin(), members.end(), all.rank()) == members.end()) return none;
    coll::Team team(all.engine(), members, 8);
    Calls calls(team, 3, 50'000);
    for (int i = 0; i < 100; ++i) calls.any();
    return calls.errors();
  });
  CHECK(errors == std::vector<std::string>());
}

}  // namespace
}  // namespace weft::test
