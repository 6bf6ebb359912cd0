// Ranks that leave while their links break or fall silent, one by one.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "base/wait.hpp"
#include "tests/lanes/loopback_rank.hpp"

namespace weft::testing {

using fabric::loopback::Network;

// Rank 1 says goodbye, and the answer is stuck: rank 1 is reached by nobody from then on.
TEST_CASE("a rank that left and fell silent keeps nobody, and may open a link again") {
  const bool comes_back = GENERATE(false, true);
  INFO((comes_back ? "it comes back, when its silence has ended all" : "it has gone"));
  auto boards = make_thread_boards(2);
  auto& network = *Network::of_process();
  std::atomic<int> step{0};
  const auto reach = [&](int value) {
    while (step < value) std::this_thread::yield();
  };
  std::atomic<bool> has_left{false};
  std::thread other([&, board = std::move(boards[1])]() mutable {
    // Its timeout stands for the time that it was stopped.
    Rank one(std::move(board), comes_back ? "6000" : "3000", 0);
    SendMemory memory;
    memory.ring_bytes = 1 << 16;
    while (one.lanes->connect(0, 0, memory).code() == Code::again) one.lanes->poll();
    step = 1;
    reach(2);
    one.lanes->leave();
    has_left = true;
    reach(3);
  });
  {
    Rank one(std::move(boards[0]), comes_back ? "1000" : "3000", 1);
    ReceiveMemory memory;
    int peer, channel;
    while (step < 1 || !one.lanes->accept(0, peer, channel, memory)) one.lanes->poll();
    (void)one.lanes->state(1);  // watched from now on
    for (int i = 0; i < 1000; ++i) one.lanes->poll();
    const std::string its = one.address(1);
    network.set_faults({.seed = 7, .max_delay_us = 400'000});
    step = 2;
    while (one.lanes->state(1) != PeerState::left) one.lanes->poll();
    network.silence(its, true);
    network.set_faults({});
    const auto poll_for = [&](int ms, const std::atomic<bool>& ends) {
      const std::uint64_t limit = now_ns() + static_cast<std::uint64_t>(ms) * 1'000'000;
      while (now_ns() < limit && !ends) one.lanes->poll();
    };
    if (comes_back) {
      const std::atomic<bool> never{false};
      poll_for(1500, never);
      network.silence(its, false);
      poll_for(10'000, has_left);
      CHECK(has_left);
    } else {
      network.cut(its);
      one.lanes->leave();
      network.silence(its, false);
    }
    step = 3;
  }
  other.join();
}

}  // namespace weft::testing
