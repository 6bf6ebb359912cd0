// Requests for links that come late, when who asked has left them for another link.
#include <catch2/catch.hpp>
#include <thread>

#include "base/wait.hpp"
#include "fabric/registry.hpp"
#include "lanes/mapped/host_lanes.hpp"
#include "tests/lanes/loopback_rank.hpp"

namespace weft::testing {

using fabric::loopback::Network;

// Both ranks open a link after a break, and the one of the lower rank counts. What the other has
// asked for, and left, is heard only when that one is up.
TEST_CASE("a rank's link stays when a request comes late that its peer has left") {
  constexpr std::uint64_t kDeadlineNs = 20'000'000'000, kLongerNs = 300'000'000;
  auto boards = make_thread_boards(2);
  auto& network = *Network::of_process();
  std::unique_ptr<Rank> ranks[2];
  std::thread other([&] { ranks[1] = std::make_unique<Rank>(std::move(boards[1]), "20000", 0); });
  ranks[0] = std::make_unique<Rank>(std::move(boards[0]), "20000", 1);
  other.join();
  const auto poll_until = [&](auto&& done) {
    for (const std::uint64_t limit = now_ns() + kDeadlineNs; !done();) {
      for (auto& rank : ranks) rank->lanes->poll();
      if (now_ns() > limit) return false;
    }
    return true;
  };
  const auto is_settled = [&] {
    return !ranks[0]->lanes->has_under_way() && !ranks[1]->lanes->has_under_way();
  };
  const std::string first = ranks[0]->address(0), second = ranks[0]->address(1);
  const auto num_opened = [&] {
    return network.counts(first).opened + network.counts(second).opened;
  };
  SendMemory memory;
  memory.ring_bytes = 1 << 16;
  REQUIRE(poll_until([&] { return ranks[1]->lanes->connect(0, 0, memory).ok(); }));
  REQUIRE(poll_until(is_settled));

  for (const std::string& address : {first, second}) network.hold_requests(address, true);
  network.cut(first);
  // Each has a link that it opens, and one that waits.
  REQUIRE(poll_until(
      [&] { return network.counts(first).links == 2 && network.counts(second).links == 2; }));
  network.hold_requests(second, false);
  REQUIRE(poll_until(is_settled));
  const std::uint64_t before = num_opened();
  network.hold_requests(first, false);
  REQUIRE(poll_until([&] { return network.counts(first).links == 1; }));
  const std::uint64_t end = now_ns() + kLongerNs;
  REQUIRE(poll_until([&] { return now_ns() > end; }));
  CHECK(is_settled());
  CHECK(num_opened() == before);
  for (auto& rank : ranks) CHECK(rank->lanes->num_ends() == 0);
}

// A process of another job that was forgotten, and is met again, knows how many links were opened
// before: those that come then are not late.
TEST_CASE("a foreign process that is forgotten and admitted again is reached at once") {
  struct Process {
    Process() {
      auto boards = make_thread_boards(1);
      Settings settings;
      REQUIRE(settings.set("FABRIC", "loopback"));
      REQUIRE(Members::open(settings, std::move(boards[0]), job).ok());
      REQUIRE(make_host_lanes(*job, local).ok());
      REQUIRE(
          make_remote_lanes(*job, *local, *fabric::find_row("loopback"), To::foreign, lanes).ok());
    }
    void admit(Process& other) {
      REQUIRE(job->add_foreign({{other.job->id(), 0}, 1, "host"}, number).ok());
      REQUIRE(lanes->admit(number, {other.job->id(), 0}, other.lanes->endpoint_address()).ok());
    }
    void forget() {
      lanes->forget(number);
      job->remove_foreign(number);
    }
    std::unique_ptr<Members> job;
    std::unique_ptr<HostLanes> local;
    std::unique_ptr<RemoteLanes> lanes;
    int number = -1;
  };
  Process here, there;
  std::uint64_t word = 0;
  MemoryName memory;
  here.admit(there);
  there.admit(here);
  REQUIRE(there.lanes->share(&word, sizeof word, memory).ok());
  const auto add = [&] {
    std::uint64_t value = 0;
    Completion completion;
    here.lanes->begin(here.number, {Access::fetch_add, memory, 0, nullptr, 8, 1, 0, &value},
                      completion);
    const std::uint64_t begin = now_ns();
    while (!completion.is_done() && now_ns() < begin + 20'000'000'000) {
      here.lanes->poll();
      there.lanes->poll();
    }
    REQUIRE(completion.is_done());
    CHECK(completion.code() == Code::ok);
  };
  const auto num_opened = [&] {
    const std::string text = here.lanes->endpoint_address();
    return Network::of_process()->counts(test::from_hex(text.substr(text.rfind(' ') + 1))).opened;
  };
  for (std::uint64_t round = 0; round < 5; ++round) {
    add();
    CHECK(num_opened() == round + 1);
    here.forget();
    here.admit(there);
  }
  REQUIRE(there.lanes->unshare(memory).ok());
}

}  // namespace weft::testing
