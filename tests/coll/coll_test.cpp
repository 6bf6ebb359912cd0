// Every collective by every algorithm, against results computed from the definitions.
#include <catch2/catch.hpp>

#include "calls.hpp"
#include "coll/shm/tree.hpp"
#include "ranks.hpp"

namespace weft::test {
namespace {

struct Forced {
  Call call;
  std::string_view pick;
};

// Every algorithm that a setting can name.
constexpr Forced kForced[] = {
    {Call::barrier, "barrier=shm"},
    {Call::barrier, "barrier=dissemination"},
    {Call::bcast, "bcast=shm"},
    {Call::bcast, "bcast=binomial"},
    {Call::bcast, "bcast=scatter_allgather"},
    {Call::bcast, "bcast=chain"},
    {Call::bcast, "bcast=pipeline"},
    {Call::bcast, "bcast=two_trees"},
    {Call::reduce, "reduce=shm"},
    {Call::reduce, "reduce=binomial"},
    {Call::reduce, "reduce=rabenseifner"},
    {Call::reduce, "reduce=circulant"},
    {Call::allreduce, "allreduce=shm"},
    {Call::allreduce, "allreduce=recursive_doubling"},
    {Call::allreduce, "allreduce=rabenseifner"},
    {Call::allreduce, "allreduce=circulant"},
    {Call::allreduce, "allreduce=ring"},
    {Call::gather, "gather=shm"},
    {Call::gather, "gather=binomial"},
    {Call::gather, "gather=linear"},
    {Call::scatter, "scatter=shm"},
    {Call::scatter, "scatter=binomial"},
    {Call::scatter, "scatter=linear"},
    {Call::allgather, "allgather=shm"},
    {Call::allgather, "allgather=circulant"},
    {Call::allgather, "allgather=ring"},
    {Call::alltoall, "alltoall=shm"},
    {Call::alltoall, "alltoall=bruck"},
    {Call::alltoall, "alltoall=pairwise"},
    {Call::reduce_scatter, "reduce_scatter=shm"},
    {Call::reduce_scatter, "reduce_scatter=circulant"},
    {Call::reduce_scatter, "reduce_scatter=pairwise"},
    {Call::reduce_scatter, "reduce_scatter=binomial"},
    {Call::scan, "scan=shm"},
    {Call::scan, "scan=recursive_doubling"},
    {Call::scan, "scan=pairwise"},
    {Call::exscan, "scan=shm"},
    {Call::exscan, "scan=recursive_doubling"},
    {Call::exscan, "scan=pairwise"},
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
                          : std::vector<NameValue>{
                                {"COLL_ALGORITHMS",
                                 "bcast=binomial,allreduce=recursive_doubling,alltoall=bruck,"
                                 "barrier=dissemination"}};
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
      INFO(forced.pick << " with " << n << " ranks");
      const auto errors = run_ranks(n, {{"COLL_ALGORITHMS", forced.pick}}, [&](coll::Team& team) {
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

// More members than one group of a tree has, some of which wait and some of which run ahead.
TEST_CASE("random calls in a row, along a tree") {
  for (const int n : {17, 33})
    for (const std::size_t most : {60u, 20'000u}) {
      INFO(n << " ranks, up to " << most << " bytes");
      const auto errors = run_ranks(n, {{"COLL_CROWDED", "no"}}, [&](coll::Team& team) {
        Calls calls(team, static_cast<std::uint32_t>(most) + static_cast<std::uint32_t>(n), most);
        for (int i = 0; i < 24 / kFewer; ++i) calls.any();
        return calls.errors();
      });
      CHECK(errors == std::vector<std::string>());
    }
}

TEST_CASE("a tree has groups of members that share a cache") {
  CHECK(coll::ShmTree::make(16, [](int, int) { return true; }).is_flat());
  const auto one = coll::ShmTree::make(20, [](int, int) { return true; });
  REQUIRE(one.num_groups() == 3);
  CHECK(one.is_in_order());
  CHECK(one.group(2).size() == 4);
  CHECK(one.head(1, 0) == 8);
  CHECK(one.head(1, 11) == 11);
  // Ranks that were dealt out over two caches.
  const auto two = coll::ShmTree::make(18, [](int a, int b) { return a % 2 == b % 2; });
  REQUIRE(two.num_groups() == 4);
  CHECK_FALSE(two.is_in_order());
  CHECK(std::vector<int>(two.group(1).begin(), two.group(1).end()) ==
        std::vector<int>{1, 3, 5, 7, 9, 11, 13, 15});
  CHECK(two.group_of(16) == 2);
  // Each has a cache of its own.
  const auto apart = coll::ShmTree::make(24, [](int a, int b) { return a == b; });
  CHECK(apart.num_groups() == 3);
  CHECK(apart.is_in_order());
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
