// Collectives of ranks that are on several hosts, whatever the mapping of ranks to hosts.
#include <catch2/catch.hpp>

#include "calls.hpp"
#include "coll/two_level/hosts.hpp"
#include "ranks.hpp"

namespace weft::test {
namespace {

const std::vector<NameValue> kOverLoopback = {{"INTERFACE", "lo"}, {"PEER_TIMEOUT_MS", "60000"}};

std::vector<NameValue> with(std::vector<NameValue> more) {
  more.insert(more.end(), kOverLoopback.begin(), kOverLoopback.end());
  return more;
}

const std::vector<std::vector<int>> kPlacements = {
    {0, 0, 1},          {0, 0, 1, 1},          {0, 1, 0, 1},
    {1, 0, 0, 2, 1, 0}, {0, 0, 0, 1, 2, 2},    {0, 1, 2, 0, 1, 2, 0, 1},
    {0, 0, 0, 1, 1, 1}, {0, 1, 1, 0, 0, 1, 0},
};

std::string text(const std::vector<int>& hosts) {
  std::string text;
  for (const int host : hosts) text += std::to_string(host);
  return text;
}

TEST_CASE("every collective over every placement") {
  for (const auto& hosts : kPlacements) {
    INFO("hosts " << text(hosts));
    const auto errors = run_ranks_on(hosts, kOverLoopback, [&](coll::Team& team) {
      if (team.hosts() == nullptr) return std::vector<std::string>{"no hosts are known"};
      Calls calls(team, static_cast<std::uint32_t>(hosts.size()), 150'000);
      for (int call = 0; call < static_cast<int>(Call::kCount); ++call)
        for (int i = 0; i < 8; ++i) calls.one(static_cast<Call>(call));
      return calls.errors();
    });
    CHECK(errors == std::vector<std::string>());
  }
}

TEST_CASE("random calls in a row over hosts") {
  for (const auto& hosts : kPlacements)
    for (const std::size_t most : {60u, 5'000u, 700'000u}) {
      INFO("hosts " << text(hosts) << ", up to " << most << " bytes");
      const auto errors = run_ranks_on(hosts, kOverLoopback, [&](coll::Team& team) {
        Calls calls(team, static_cast<std::uint32_t>(most + hosts.size()), most);
        for (int i = 0; i < (most > 100'000 ? 20 : 60); ++i) calls.any();
        return calls.errors();
      });
      CHECK(errors == std::vector<std::string>());
    }
}

// What a setting names is taken where members share hosts, too.
TEST_CASE("algorithms of one level over hosts") {
  for (const std::string_view picks :
       {"barrier=dissemination,bcast=binomial,reduce=binomial,allreduce=recursive_doubling,"
        "gather=binomial,scatter=binomial,allgather=circulant,alltoall=bruck,reduce_scatter="
        "binomial",
        "bcast=chain,reduce=rabenseifner,allreduce=ring,gather=linear,scatter=linear,"
        "allgather=ring,alltoall=pairwise,reduce_scatter=pairwise"}) {
    INFO(picks);
    const auto errors =
        run_ranks_on({0, 1, 0, 1, 1}, with({{"COLL_ALGORITHMS", picks}}), [&](coll::Team& team) {
          Calls calls(team, 5, 100'000);
          for (int i = 0; i < 60; ++i) calls.any();
          return calls.errors();
        });
    CHECK(errors == std::vector<std::string>());
  }
}

// docs/design/collectives.md, Reproducible sums.
TEST_CASE("reproducible sums are the same bits for any placement") {
  static void (*const add)(const void*, void*, std::size_t, void*) = [](const void* in, void* inout,
                                                                        std::size_t count, void*) {
    for (std::size_t i = 0; i < count; ++i)
      static_cast<double*>(inout)[i] += static_cast<const double*>(in)[i];
  };
  const bool commutes = GENERATE(true, false);
  coll::Reduction sum{add, nullptr, sizeof(double)};
  sum.commutative = commutes;
  constexpr std::size_t kCount = 6 * 700;
  std::vector<double> first;
  for (const std::vector<int>& hosts :
       {std::vector{0, 0, 0, 0, 0, 0}, {0, 0, 0, 1, 1, 1}, {0, 1, 0, 1, 2, 2}}) {
    INFO("hosts " << text(hosts));
    std::vector<std::vector<double>> results(hosts.size());
    const auto errors =
        run_ranks_on(hosts, with({{"COLL_ALGORITHMS", "reproducible"}}), [&](coll::Team& team) {
          std::vector<double> own(kCount), out(kCount);
          auto& all = results[static_cast<std::size_t>(team.rank())];
          for (std::size_t i = 0; i < kCount; ++i)
            own[i] =
                1.0 / static_cast<double>(i * 7 + 3 + 1000 * static_cast<std::size_t>(team.rank()));
          const std::vector<std::size_t> counts(static_cast<std::size_t>(team.size()), 700);
          std::vector<std::string> errors;
          for (const std::size_t count : {std::size_t{10}, kCount}) {
            if (!allreduce(team, own.data(), out.data(), count, sum)) errors.push_back("allreduce");
            all.insert(all.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
            if (!reduce(team, own.data(), out.data(), count, sum, 0)) errors.push_back("reduce");
            if (team.rank() == 0)
              all.insert(all.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
            if (!scan(team, own.data(), out.data(), count, sum)) errors.push_back("scan");
            all.insert(all.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
          }
          if (!reduce_scatter(team, own.data(), out.data(), counts.data(), sum))
            errors.push_back("reduce_scatter");
          all.insert(all.end(), out.begin(), out.begin() + 700);
          return errors;
        });
    CHECK(errors == std::vector<std::string>());
    std::vector<double> together;
    for (const auto& one : results) together.insert(together.end(), one.begin(), one.end());
    if (first.empty()) first = together;
    CHECK((first == together));
  }
}

TEST_CASE("teams of some ranks, in another order, over hosts") {
  const auto errors = run_ranks_on({0, 0, 1, 1, 2}, kOverLoopback, [](coll::Team& all) {
    std::vector<std::string> errors;
    std::uint32_t context = 8;
    for (const std::vector<int>& members :
         {std::vector{3, 0, 2, 1}, {4, 1, 0}, {0, 2, 4}, {2, 3}, {4, 3, 2, 1, 0}}) {
      ++context;
      if (std::find(members.begin(), members.end(), all.rank()) == members.end()) continue;
      coll::Team team(all.engine(), members, context);
      Calls calls(team, 3, 50'000);
      for (int i = 0; i < 30; ++i) calls.any();
      errors.insert(errors.end(), calls.errors().begin(), calls.errors().end());
      // Nobody ends a team that others still use: its segment is theirs, too.
      if (!barrier(team)) errors.push_back("the last barrier");
    }
    return errors;
  });
  CHECK(errors == std::vector<std::string>());
}

TEST_CASE("hosts are numbered by their first members, and know who shares them") {
  const auto errors = run_ranks_on({7, 3, 7, 9, 3}, kOverLoopback, [](coll::Team& team) {
    std::vector<std::string> errors;
    const auto expect = [&](bool right, const char* what) {
      if (!right) errors.push_back(what);
    };
    coll::Hosts* hosts = team.hosts();
    if (hosts == nullptr) return std::vector<std::string>{"no hosts are known"};
    expect(hosts->size() == 3, "three hosts");
    for (int member = 0; member < 5; ++member) {
      const int host[] = {0, 1, 0, 2, 1}, place[] = {0, 0, 1, 0, 1}, order[] = {0, 2, 1, 4, 3};
      expect(hosts->host(member) == host[member], "the host of a member");
      expect(hosts->local_rank(member) == place[member], "the place of a member");
      expect(hosts->member(member) == order[member], "the order of members");
    }
    expect(!hosts->is_in_order() && !hosts->is_even(), "neither in order nor even");
    expect(hosts->inside().size() == hosts->size(hosts->mine()), "the team inside");
    expect(hosts->inside().is_local() && !hosts->across().is_local(), "what is local");
    // The root leads its host while it is asked for, and nobody else does.
    for (int root = 0; root < 5; ++root) {
      const bool leads = hosts->lead(root);
      const bool other_host = hosts->host(root) != hosts->mine();
      expect(leads == (team.rank() == root || (other_host && hosts->local_rank(team.rank()) == 0)),
             "who leads for a root");
      expect(hosts->across().world(hosts->host(root)) == root, "the root leads its host");
    }
    expect(hosts->lead() == (hosts->local_rank(team.rank()) == 0), "first members lead");
    expect(hosts->across().world(1) == 1, "first members are in the team across");
    return errors;
  });
  CHECK(errors == std::vector<std::string>());
}

}  // namespace
}  // namespace weft::test
