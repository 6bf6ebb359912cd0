// Ranks on devices that have room for one link: those to other peers rest.
#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "base/wait.hpp"
#include "tests/lanes/loopback_rank.hpp"

namespace weft::testing {

using fabric::loopback::Network;

namespace {

struct Three {
  Three() {
    Network::of_process()->set_options({.most_links = 1});
    auto boards = make_thread_boards(3);
    std::array<std::thread, 3> threads;
    for (std::size_t i = 0; i < 3; ++i)
      threads[i] = std::thread([this, i, board = std::move(boards[i])]() mutable {
        ranks[i] = std::make_unique<Rank>(std::move(board), "1000", i == 0 ? 1 : 0);
      });
    for (std::thread& thread : threads) thread.join();
  }
  ~Three() {
    // Each has to hear the goodbyes of the others.
    std::array<std::thread, 3> threads;
    for (std::size_t i = 0; i < 3; ++i)
      threads[i] = std::thread([this, i] { ranks[i]->lanes->leave(); });
    for (std::thread& thread : threads) thread.join();
    Network::of_process()->set_options({});
  }
  template <class F>
  bool poll_until(F&& done, std::uint64_t ns = 20'000'000'000) {
    for (const std::uint64_t limit = now_ns() + ns; !done();) {
      for (auto& rank : ranks) rank->lanes->poll();
      if (now_ns() > limit) return false;
    }
    return true;
  }
  PeerState state(int of) { return ranks[0]->lanes->state(of); }
  bool connect(int to) {
    SendMemory memory;
    memory.ring_bytes = 1 << 16;
    return poll_until([&] {
      const Code code = ranks[0]->lanes->connect(to, 0, memory).code();
      if (code != Code::again) CHECK(code == Code::ok);
      return code != Code::again;
    });
  }
  std::size_t refused() { return Network::of_process()->counts(ranks[0]->address(0)).refused; }
  std::array<std::unique_ptr<Rank>, 3> ranks;
};

}  // namespace

TEST_CASE("ranks whose links take turns are watched, and live on") {
  Three three;
  REQUIRE(three.connect(1));
  REQUIRE(three.connect(2));
  CHECK(three.refused() > 0);
  const auto all_live = [&] {
    return three.state(1) == PeerState::alive && three.state(2) == PeerState::alive;
  };
  CHECK_FALSE(three.poll_until([&] { return !all_live(); }, 4'000'000'000));
}

TEST_CASE("a rank that ends while its link rests is lost, and no other") {
  Three three;
  REQUIRE(three.connect(1));
  REQUIRE(three.connect(2));
  REQUIRE(three.state(1) == PeerState::alive);
  Network::of_process()->silence(three.ranks[0]->address(1), true);
  const std::uint64_t begin = now_ns();
  CHECK(three.poll_until([&] { return three.state(1) == PeerState::dead; }));
  CHECK(now_ns() - begin < 4'000'000'000u);
  CHECK(three.state(2) == PeerState::alive);
  Network::of_process()->silence(three.ranks[0]->address(1), false);
}

}  // namespace weft::testing
