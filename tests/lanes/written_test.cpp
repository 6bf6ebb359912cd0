// Entries that a fabric writes into the ring, once that is registered.
#include <fmt/core.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/os/lock_limit.hpp"
#include "base/wait.hpp"
#include "lanes/lane.hpp"
#include "tests/lanes/loopback_rank.hpp"
#include "tests/lanes/odd_member.hpp"

namespace weft::testing {

using fabric::loopback::Network;
using fabric::loopback::Options;

namespace {

constexpr std::uint64_t kLimitNs = 60'000'000'000;

struct Passed {
  bool is_whole = false;   // all entries came, in order
  Network::Counts counts;  // at the reader
};

// Rank 1 sends rank 0 entries of length(i) bytes, all of them i, on `num_lanes` lanes one after the
// other, each of a client of its own that is closed behind it.
template <class Length>
Passed pass(int count, std::uint32_t ring_bytes, std::uint32_t ring_start, const Length& length,
            int num_lanes = 1) {
  auto boards = make_thread_boards(2);
  std::atomic<int> step{0};
  std::atomic<bool> is_over{false};
  const std::uint64_t limit = now_ns() + kLimitNs;
  const auto goes_on = [&] { return now_ns() < limit && !is_over; };
  const auto channel = [](int lane) {
    return channel_number({static_cast<std::uint16_t>(kNumEngineClients + lane), 0, 0});
  };
  std::thread other([&, board = std::move(boards[1])]() mutable {
    Rank one(std::move(board), "20000", 0);
    for (int number = 0; number < num_lanes && goes_on(); ++number) {
      SendMemory memory;
      memory.ring_bytes = ring_bytes;
      while (goes_on() && one.lanes->connect(0, channel(number), memory).code() == Code::again)
        one.lanes->poll();
      SendLane lane;
      lane.open(*one.lanes, memory, ring_start, ring_bytes);
      for (int i = 0; i < count && goes_on();) {
        const std::vector<char> data(length(i), static_cast<char>(i));
        if (lane.send(1, static_cast<std::uint64_t>(i), data.data(), data.size())) ++i;
        one.lanes->poll();
      }
      while (step <= number && goes_on()) one.lanes->poll();
      one.lanes->close_client(channel_of(channel(number)).client);
    }
    while (!is_over && now_ns() < limit) one.lanes->poll();
  });
  Passed passed;
  passed.is_whole = true;
  {
    Rank one(std::move(boards[0]), "20000", 1);
    for (int number = 0; number < num_lanes; ++number) {
      ReceiveMemory memory;
      int peer = -1, from = 0;
      while (peer < 0 && goes_on()) {
        one.lanes->poll();
        REQUIRE(one.lanes->accept(channel_of(channel(number)).client, peer, from, memory).ok());
      }
      ReceiveLane lane;
      lane.open(*one.lanes, memory, ring_start, ring_bytes);
      Entry entry;
      for (int i = 0; i < count && passed.is_whole;) {
        one.lanes->poll();
        if (!lane.peek(entry)) {
          passed.is_whole = goes_on() && !lane.ring.broken();
          continue;
        }
        passed.is_whole =
            entry.immediate == static_cast<std::uint64_t>(i) && entry.length == length(i);
        for (std::size_t k = 0; k < entry.length; ++k)
          passed.is_whole = passed.is_whole && entry.data[k] == static_cast<std::byte>(i & 0xff);
        lane.ring.pop(entry.length);
        lane.return_credit(false);
        ++i;
      }
      if (number + 1 == num_lanes) passed.counts = Network::of_process()->counts(one.address(0));
      one.lanes->close_client(channel_of(channel(number)).client);
      step = number + 1;
    }
    is_over = true;
    other.join();
  }
  return passed;
}

std::size_t mixed(int i) { return static_cast<std::size_t>(i * 131 % 4000); }

struct Reset {
  ~Reset() {
    Network::of_process()->set_faults({});
    Network::of_process()->set_options({});
  }
};

}  // namespace

TEST_CASE("entries are written into the ring once it is registered, and not sent") {
  const Reset reset;
  const Passed passed = pass(5000, 1 << 16, 1 << 16, mixed);
  CHECK(passed.is_whole);
  CHECK(passed.counts.writes > 4500);
  CHECK(passed.counts.messages < 300);
}

TEST_CASE("a ring that grows is registered again, as a whole") {
  const Reset reset;
  const Passed passed = pass(20'000, 1 << 20, 1 << 16, mixed);
  CHECK(passed.is_whole);
  CHECK(passed.counts.writes > 15'000);
}

TEST_CASE("written entries arrive once and in order, however often links break") {
  const Reset reset;
  const unsigned seed = GENERATE(1, 2, 3, 4, 5, 6);
  INFO("seed " << seed);
  Network::of_process()->set_faults({.seed = seed, .max_delay_us = 20, .cut_one_in = 400});
  const Passed passed = pass(6000, 1 << 17, 1 << 16, mixed);
  CHECK(passed.is_whole);
  CHECK(passed.counts.writes > 100);
}

TEST_CASE("where one side has no writes, or neither has, entries go by messages") {
  const Reset reset;
  // The side that makes its endpoint first lacks them: over the rounds that is either.
  const int round = GENERATE(range(0, 8));
  INFO("round " << round);
  Options without;
  without.writes = false;
  Network::of_process()->set_options(without, round == 0 ? without : Options{});
  const Passed passed = pass(600, 1 << 16, 1 << 16, mixed);
  CHECK(passed.is_whole);
  CHECK(passed.counts.writes == 0);
}

TEST_CASE("a thread posts to its lane while another is in a poll, and takes no lock of all") {
  const Reset reset;
  auto boards = make_thread_boards(2);
  constexpr int kBefore = 200, kAfter = 50;
  const int channel = channel_number({kNumEngineClients, 0, 0});
  const std::uint64_t limit = now_ns() + kLimitNs;
  std::atomic<bool> is_over{false};
  std::atomic<int> received{0};
  std::thread other([&, board = std::move(boards[1])]() mutable {
    Rank one(std::move(board), "20000", 0);
    ReceiveMemory memory;
    int peer = -1, from = 0;
    while (peer < 0 && now_ns() < limit) {
      one.lanes->poll();
      if (!one.lanes->accept(kNumEngineClients, peer, from, memory)) return;
    }
    ReceiveLane lane;
    lane.open(*one.lanes, memory, 1 << 16, 1 << 16);
    for (Entry entry; !is_over && now_ns() < limit;) {
      one.lanes->poll();
      if (!lane.peek(entry)) continue;
      lane.ring.pop(entry.length);
      lane.return_credit(false);
      ++received;
    }
  });
  // Its watcher polls until its end.
  std::atomic<int> in_poll{0};
  std::atomic<bool> may_go{false};
  {
    Rank one(std::move(boards[0]), "20000", 1);
    SendMemory memory;
    memory.ring_bytes = 1 << 16;
    while (now_ns() < limit && one.lanes->connect(1, channel, memory).code() == Code::again)
      one.lanes->poll();
    SendLane lane;
    lane.open(*one.lanes, memory, 1 << 16, 1 << 16);
    for (int i = 0; i < kBefore && now_ns() < limit;) {
      if (lane.send(1, 0, "entry", 5)) ++i;
      one.lanes->poll();
    }
    while (received < kBefore && now_ns() < limit) one.lanes->poll();
    for (int i = 0; i < 100; ++i) one.lanes->poll();  // the key of the ring has come by now
    Network::of_process()->set_at_poll(one.address(0), [&] {
      if (may_go) return;
      in_poll = 1;
      while (!may_go && now_ns() < limit) std::this_thread::yield();
    });
    std::thread poller([&] { one.lanes->poll(); });
    while (in_poll == 0 && now_ns() < limit) std::this_thread::yield();
    int posted = 0;
    for (int i = 0; i < kAfter; ++i) posted += lane.send(1, 0, "entry", 5) ? 1 : 0;
    CHECK(posted == kAfter);
    while (received < kBefore + kAfter && now_ns() < limit) std::this_thread::yield();
    CHECK(received == kBefore + kAfter);
    CHECK(now_ns() < limit);
    may_go = true;
    poller.join();
    is_over = true;
    other.join();
  }
}

// Each thread has lanes of its own to one peer, whose links break.
TEST_CASE("threads write beside each other while links break") {
  const Reset reset;
  constexpr int kThreads = 3, kCount = 1500;
  Network::of_process()->set_faults({.seed = 11, .max_delay_us = 10, .cut_one_in = 500});
  auto boards = make_thread_boards(2);
  const std::uint64_t limit = now_ns() + kLimitNs;
  std::atomic<int> open{0}, done{0};
  std::atomic<bool> is_whole{true};
  const auto channel = [](int thread) {
    return channel_number({kNumEngineClients, static_cast<std::uint8_t>(thread), 0});
  };
  std::thread other([&, board = std::move(boards[1])]() mutable {
    Rank one(std::move(board), "20000", 0);
    std::vector<std::thread> writers;
    for (int number = 0; number < kThreads; ++number)
      writers.emplace_back([&, number] {
        SendMemory memory;
        memory.ring_bytes = 1 << 16;
        while (now_ns() < limit &&
               one.lanes->connect(0, channel(number), memory).code() == Code::again)
          one.lanes->poll();
        SendLane lane;
        lane.open(*one.lanes, memory, 1 << 16, 1 << 16);
        for (int i = 0; i < kCount && now_ns() < limit;) {
          const std::vector<char> data(mixed(i), static_cast<char>(i));
          if (lane.send(1, static_cast<std::uint64_t>(i), data.data(), data.size())) ++i;
          one.lanes->poll();
        }
        while (done < kThreads && now_ns() < limit) one.lanes->poll();
      });
    for (std::thread& writer : writers) writer.join();
  });
  {
    Rank one(std::move(boards[0]), "20000", 1);
    std::vector<ReceiveLane> lanes(kThreads);
    std::vector<int> next(kThreads, 0);
    while (done < kThreads && is_whole && now_ns() < limit) {
      one.lanes->poll();
      ReceiveMemory memory;
      int peer = -1, from = 0;
      if (open < kThreads && one.lanes->accept(kNumEngineClients, peer, from, memory) &&
          peer >= 0) {
        lanes[channel_of(from).writer].open(*one.lanes, memory, 1 << 16, 1 << 16);
        ++open;
      }
      for (std::size_t k = 0; k < lanes.size(); ++k) {
        Entry entry;
        if (lanes[k].arrived == nullptr || !lanes[k].peek(entry)) continue;
        const int i = next[k]++;
        is_whole = entry.immediate == static_cast<std::uint64_t>(i) && entry.length == mixed(i);
        for (std::size_t at = 0; at < entry.length; ++at)
          is_whole = is_whole && entry.data[at] == static_cast<std::byte>(i & 0xff);
        lanes[k].ring.pop(entry.length);
        lanes[k].return_credit(false);
        if (next[k] == kCount) ++done;
      }
    }
    CHECK(is_whole);
    CHECK(done == kThreads);
    done = kThreads;
    other.join();
  }
}

TEST_CASE("lanes that close with writes under way leave their places to others") {
  const Reset reset;
  Network::of_process()->set_faults({.seed = 3, .max_delay_us = 50});
  CHECK(pass(300, 1 << 16, 1 << 16, mixed, 20).is_whole);
}

namespace {

constexpr std::uint32_t kRingOfMember = 77;

// Opens a lane to the member on the channel of this client, with entries of five bytes until it has
// its full ring. Returns the lane's number.
std::uint32_t open_to(test::OddMember& member, int client, std::uint32_t ring_bytes,
                      SendLane& lane) {
  const int channel = channel_number({static_cast<std::uint16_t>(client), 0, 0});
  SendMemory memory;
  memory.ring_bytes = ring_bytes;
  REQUIRE(member.lanes->connect(1, channel, memory).code() == Code::again);
  const auto asked = member.next<transport::LaneOpenMessage>(transport::Kind::lane_open);
  transport::LaneAnswerMessage answer{};
  answer.kind = transport::Kind::lane_answer;
  answer.id = asked.id;
  answer.ring = kRingOfMember + static_cast<std::uint32_t>(client);
  member.say(answer, {}, true);
  REQUIRE(member.poll_until([&] { return member.lanes->connect(1, channel, memory).ok(); }));
  lane.open(*member.lanes, memory, 1 << 16, ring_bytes);
  for (int i = 0; i < 10; ++i) REQUIRE(lane.send(1, 0, "entry", 5));
  return asked.id;
}

void say_key(test::OddMember& member, std::uint32_t lane, std::uint64_t bytes) {
  transport::LaneKeyMessage message{};
  message.kind = transport::Kind::lane_key;
  message.id = lane;
  message.key = fabric::key_of({4096, bytes, 4711});
  member.say(message, {}, true);
}

}  // namespace

TEST_CASE("a member with more keys of a ring than a ring has is lost") {
  const Reset reset;
  test::OddMember member(test::remote_settings("20000"), "loopback",
                         fabric::loopback::make_endpoint());
  member.open();
  SendLane lane;
  const std::uint32_t number = open_to(member, 0, 1 << 16, lane);
  for (std::uint64_t i = 1; i <= 3 && member.lanes->state(1) == PeerState::alive; ++i)
    say_key(member, number, 64 * i);
  CHECK(member.poll_until([&] { return member.lanes->state(1) == PeerState::dead; }));
}

TEST_CASE("mirrors are registered up to a limit; the entries of others go by messages") {
  if (lock_limit_bytes() / 4 < std::size_t{256} << 20) {
    fmt::print(stderr, "skipped: the limit of registered mirrors, as ulimit -l is lower\n");
    return;
  }
  const Reset reset;
  constexpr std::uint32_t kBytes = 200 << 20;
  test::OddMember member(test::remote_settings("20000"), "loopback",
                         fabric::loopback::make_endpoint());
  member.open();
  SendLane lanes[2];
  for (int i = 0; i < 2; ++i) say_key(member, open_to(member, i, kBytes, lanes[i]), kBytes);
  member.say(transport::Head{.kind = transport::Kind::ping});
  (void)member.next<transport::Head>(transport::Kind::ack);
  for (SendLane& lane : lanes) REQUIRE(lane.send(1, 0, "entry", 5));
  const auto entries = member.next<transport::EntriesMessage>(transport::Kind::lane_entries);
  CHECK(entries.id == kRingOfMember + 1);
  CHECK(entries.position == 640);
}

}  // namespace weft::testing
