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
  explicit Three(const fabric::loopback::Options& options = {.most_links = 1}) {
    Network::of_process()->set_options(options);
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
    Network::of_process()->set_faults({});
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

// A rest waits for what the fabric does, and what is posted at a link that rests waits for the
// next.
TEST_CASE("atomics of ranks whose links take turns are done once, each with its value") {
  constexpr std::uint64_t kSteps = 60;
  for (const bool are_native : {false, true}) {
    INFO((are_native ? "by the device" : "by the owner"));
    Three three({.puts = true, .gets = true, .atomics = are_native, .most_links = 1});
    // So that there is always something under way.
    Network::of_process()->set_faults({.seed = 3, .max_delay_us = 300});
    std::array<std::array<std::uint64_t, 3>, 3> words{};  // of a rank: one for each origin
    std::array<MemoryName, 3> memory;
    for (std::size_t i = 0; i < 3; ++i)
      REQUIRE(three.ranks[i]->lanes->share(words[i].data(), sizeof words[i], memory[i]).ok());
    std::atomic<int> num_done{0}, num_wrong{0};
    std::array<std::thread, 3> threads;
    for (std::size_t self = 0; self < 3; ++self)
      threads[self] = std::thread([&, self] {
        RemoteLanes& lanes = *three.ranks[self]->lanes;
        for (std::uint64_t step = 0; step < kSteps && num_wrong == 0; ++step)
          for (const std::size_t to : {(self + 1) % 3, (self + 2) % 3}) {
            std::uint64_t previous = ~std::uint64_t{0};
            const Code code =
                lanes.fetch_add(static_cast<int>(to), memory[to], 8 * self, 1, previous);
            if (code != Code::ok || previous != step) ++num_wrong;
          }
        ++num_done;
        const std::uint64_t limit = now_ns() + 60'000'000'000;
        while (num_done < 3 && now_ns() < limit) lanes.poll();
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(num_wrong == 0);
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t from = 0; from < 3; ++from)
        CHECK(std::atomic_ref(words[i][from]).load() == (i == from ? 0 : kSteps));
    CHECK(three.refused() > 0);
    for (std::size_t i = 0; i < 3; ++i) CHECK(three.ranks[i]->lanes->unshare(memory[i]).ok());
  }
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
