// Requests for links that come late, when who asked has left them for another link.
#include <catch2/catch.hpp>
#include <thread>

#include "base/wait.hpp"
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

}  // namespace weft::testing
