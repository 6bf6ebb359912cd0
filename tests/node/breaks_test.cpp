// Nodes of one process whose links break, or fall silent, by seed.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/wait.hpp"
#include "two_nodes.hpp"
#include "weft/node.hpp"

using namespace weft;
using namespace weft::test;
using fabric::loopback::Network;

TEST_CASE("a get that waits for the next link takes no time of the processor meanwhile") {
  const Way way{"loopback that does messages only",
                "loopback",
                {.puts = false, .gets = false, .atomics = false},
                false};
  Two two(way);
  std::uint64_t word = 7, got = 0;
  const PeerMemory remote = two.remote(&word, 8, kRead);
  Operation operation;
  two.client.get(remote, 0, &got, 8, operation);
  REQUIRE(two.wait(operation) == Code::ok);
  {
    const Faulty faulty(1, 0, 1);
    two.client.get(remote, 0, &got, 8, operation);
  }
  // The server does nothing, so that no link comes up.
  bool can_sleep = false;
  for (const std::uint64_t limit = now_ns() + 1'000'000'000; !can_sleep && now_ns() < limit;) {
    two.client.progress();
    can_sleep = two.client.arm();
  }
  CHECK_FALSE(operation.is_done());
  CHECK(can_sleep);
  CHECK(two.wait(operation) == Code::ok);
  CHECK(got == 7);
}

TEST_CASE("links that break are mended: all messages and changes, once") {
  for (const Way& way : kLoopbackWays) {
    INFO("over " << way.name);
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      INFO("seed " << seed);
      Two two(way);
      Faulty faulty(seed, 20, 40);
      constexpr std::size_t kWords = 512;
      std::vector<std::uint64_t> memory(kWords), shadow(kWords), copy(kWords);
      REQUIRE(two.server.register_memory(memory.data(), kWords * 8).ok());
      MemoryKey key;
      REQUIRE(two.server.key(memory.data(), kAllRights, key).ok());
      const PeerMemory remote = two.client.memory(two.at_client, key);
      std::vector<std::uint32_t> received;
      std::size_t notified = 0;
      two.server.on_message([&](const Peer&, std::span<const std::byte> bytes) {
        std::uint32_t number = 0;
        if (bytes.size() != 40) std::abort();
        std::memcpy(&number, bytes.data(), sizeof number);
        received.push_back(number);
      });
      two.server.on_notify([&](const Peer&, const NotifyTag& tag) {
        std::uint64_t word, expected;
        std::memcpy(&word, tag.data(), 8);
        std::memcpy(&expected, tag.data() + 8, 8);
        if (memory[word] != expected) std::abort();
        ++notified;
      });
      std::mt19937 random(static_cast<unsigned>(seed));
      std::uint32_t num_sent = 0;
      std::size_t num_tags = 0;
      std::uint64_t added = 0, unknown = 0;
      for (int step = 0; step < 400; ++step) {
        INFO("step " << step);
        Operation operation;
        switch (random() % 4) {
          case 0: {
            std::uint32_t message[10] = {num_sent++};
            while (two.client.send(two.at_client, message, sizeof message) == Code::again) {
              two.server.progress();
              two.client.progress();
            }
            break;
          }
          case 1: {
            const std::size_t word = 1 + random() % (kWords - 1);
            shadow[word] = random();
            NotifyTag tag;
            const std::uint64_t at = word;
            std::memcpy(tag.data(), &at, 8);
            std::memcpy(tag.data() + 8, &shadow[word], 8);
            two.client.put_notify(remote, word * 8, &shadow[word], 8, tag, operation);
            REQUIRE(two.wait(operation) == Code::ok);
            ++num_tags;
            REQUIRE(two.progress_until([&] { return notified == num_tags; }));
            break;
          }
          case 2:
            two.client.get(remote, 8, &copy[1], (kWords - 1) * 8, operation);
            REQUIRE(two.wait(operation) == Code::ok);
            REQUIRE(std::equal(copy.begin() + 1, copy.end(), shadow.begin() + 1));
            break;
          default:
            two.client.fetch_add(remote, 0, 1, operation);
            const Code code = two.wait(operation);
            REQUIRE((code == Code::ok || code == Code::outcome_unknown));
            if (code == Code::ok)
              ++added;
            else
              ++unknown;
        }
      }
      REQUIRE(two.progress_until([&] { return received.size() == num_sent; }));
      for (std::uint32_t i = 0; i < num_sent; ++i) REQUIRE(received[i] == i);
      CHECK(memory[0] >= added);
      CHECK(memory[0] <= added + unknown);
      CHECK(two.lost_at_client.ok());
      CHECK(two.lost_at_server.ok());
    }
  }
}

TEST_CASE("a put that was notified is never done again, whatever breaks then") {
  for (const Way& way : kLoopbackWays) {
    INFO("over " << way.name);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      INFO("seed " << seed);
      Two two(way);
      constexpr std::uint64_t kWords = 60;
      std::vector<std::uint64_t> memory(kWords), data(kWords);
      std::uint64_t num_notified = 0, num_wrong = 0;
      two.server.on_notify([&](const Peer&, const NotifyTag& tag) {
        std::uint64_t word;
        std::memcpy(&word, tag.data(), 8);
        if (std::exchange(memory[word], 0) != word + 1) ++num_wrong;
        ++num_notified;
      });
      Faulty faulty(seed, 20, 8);
      for (std::uint64_t word = 0; word < kWords; ++word) {
        // Each a grant, which ends as soon as it has been used.
        REQUIRE(two.server.register_memory(&memory[word], 8).ok());
        MemoryKey key;
        REQUIRE(two.server.key(&memory[word], kWrite, key, two.at_server).ok());
        const PeerMemory remote = two.client.memory(two.at_client, key);
        data[word] = word + 1;
        NotifyTag tag{};
        std::memcpy(tag.data(), &word, 8);
        Operation operation;
        two.client.put_notify(remote, 0, &data[word], 8, tag, operation);
        REQUIRE(two.progress_until([&] { return num_notified == word + 1; }));
        std::atomic<bool> is_back{false};
        std::thread client([&] {
          while (!is_back) two.client.progress();
        });
        const Status status = two.server.deregister_memory(&memory[word]);
        is_back = true;
        client.join();
        REQUIRE(status.ok());
        REQUIRE(two.wait(operation) == Code::ok);
      }
      CHECK(num_wrong == 0);
      CHECK(std::ranges::all_of(memory, [](std::uint64_t word) { return word == 0; }));
    }
  }
}

namespace {

// Puts go over the first device and, if that breaks, by messages over the second.
const Way kSecondWithoutPuts{"two devices that differ",
                             "loopback,loopback",
                             {},
                             false,
                             fabric::loopback::Options{.puts = false}};

struct OverBoth : Two {
  explicit OverBoth(int timeout_ms) : Two(kSecondWithoutPuts, timeout_ms) {
    REQUIRE(server.register_memory(words, sizeof words).ok());
    REQUIRE(server.register_memory(others, sizeof others).ok());
    REQUIRE(server.key(words, kAllRights, key).ok());
    REQUIRE(server.key(others, kAllRights, other_key).ok());
    remote = client.memory(at_client, key);
    Operation operation;
    client.put(remote, 0, &seven, 8, operation);
    REQUIRE(wait(operation) == Code::ok);
    for (int i = 0; i < 1000; ++i) {
      server.progress();
      client.progress();
    }
  }
  std::uint64_t words[8] = {}, others[8] = {};
  const std::uint64_t seven = 7;
  MemoryKey key, other_key;
  PeerMemory remote;
};

}  // namespace

TEST_CASE("a put that is done again over a device without puts is not told before it is done") {
  OverBoth two(2000);
  Network::of_process()->stall();
  Operation put, other;
  two.client.put(two.remote, 8, &two.seven, 8, put);
  // A question that is sent, and answered, before the put.
  const PeerMemory others = two.client.memory(two.at_client, two.other_key);
  two.client.put(others, 0, &two.seven, 8, other);
  REQUIRE(two.progress_until([&] {
    if (put.is_done() && two.words[1] != 7) FAIL("told ok, and not done");
    return put.is_done() && other.is_done();
  }));
  CHECK(put.code() == Code::ok);
  CHECK(other.code() == Code::ok);
  CHECK(two.others[0] == 7);
}

TEST_CASE("a notified put waits for a device that can do it, until the timeout") {
  OverBoth two(2000);
  std::uint64_t notified = 0;
  two.server.on_notify([&](const Peer&, const NotifyTag&) {
    CHECK(two.words[1] == 7);
    ++notified;
  });
  Network::of_process()->stall();
  Operation put;
  two.client.put_notify(two.remote, 8, &two.seven, 8, NotifyTag{}, put);
  const bool comes_back = GENERATE(true, false);
  const std::string first = devices_of(two.client).front();
  if (!comes_back) Network::of_process()->silence(first, true);
  CHECK(two.wait(put) == (comes_back ? Code::ok : Code::peer_lost));
  if (comes_back) {
    CHECK(two.progress_until([&] { return notified == 1; }));
  } else {
    CHECK(notified == 0);
    CHECK(two.lost_at_client.text().find("a notified put has to be done again") !=
          std::string::npos);
    Network::of_process()->silence(first, false);
  }
}

TEST_CASE("a put that breaks each link has an end, and one that does so for a while is done") {
  const bool is_mended = GENERATE(true, false);
  Two two({"loopback", "loopback", {}, false}, is_mended ? 10'000 : 300);
  std::uint64_t word = 0;
  const std::uint64_t seven = 7;
  const PeerMemory remote = two.remote(&word, 8);
  Operation put;
  two.client.put(remote, 0, &seven, 8, put);
  REQUIRE(two.wait(put) == Code::ok);
  std::optional<Faulty> faulty(fabric::loopback::Faults{.cuts_puts = true});
  two.client.put(remote, 0, &seven, 8, put);
  if (is_mended) {
    const std::uint64_t limit = now_ns() + 2'000'000'000;
    REQUIRE(two.progress_until([&] { return now_ns() > limit; }));
    CHECK_FALSE(put.is_done());
    faulty.reset();
    CHECK(two.wait(put) == Code::ok);
  } else {
    CHECK(two.wait(put) == Code::peer_lost);
    CHECK(two.lost_at_client.text().find("break under one request") != std::string::npos);
  }
}

TEST_CASE("the side that was connected to opens a link that it alone knows to be dead") {
  Two two({"loopback", "loopback", {}, false}, 2000);
  std::vector<std::uint64_t> memory(64), data(64, 7);
  REQUIRE(two.client.register_memory(memory.data(), memory.size() * 8).ok());
  MemoryKey key;
  REQUIRE(two.client.key(memory.data(), kAllRights, key).ok());
  const PeerMemory remote = two.server.memory(two.at_server, key);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    Operation put;
    std::ranges::fill(data, round);
    two.server.put(remote, 0, data.data(), data.size() * 8, put);
    REQUIRE(two.wait(put) == Code::ok);
    CHECK(memory == data);
    Network::of_process()->stall();
  }
  CHECK(two.lost_at_client.ok());
  CHECK(two.lost_at_server.ok());
}

// After a break both sides open a link, and that of the client counts. What the server has asked
// for, and left, is heard only when that one is up.
TEST_CASE("a link that is up stays when a request comes late that its asker has left") {
  Two two({"loopback", "loopback", {}, false}, 2000);
  std::uint64_t word = 0;
  const std::uint64_t seven = 7;
  const PeerMemory remote = two.remote(&word, 8);
  Operation put;
  two.client.put(remote, 0, &seven, 8, put);
  REQUIRE(two.wait(put) == Code::ok);
  Network& network = *Network::of_process();
  const std::string server = devices_of(two.server)[0], client = devices_of(two.client)[0];
  for (const std::string& device : {server, client}) network.hold_requests(device, true);
  network.cut(server);
  // Each has a link that it opens, and one that waits.
  REQUIRE(two.progress_until(
      [&] { return network.counts(server).links == 2 && network.counts(client).links == 2; }));
  network.hold_requests(server, false);
  two.client.put(remote, 0, &seven, 8, put);
  REQUIRE(two.wait(put) == Code::ok);
  const auto num_opened = [&] {
    return network.counts(server).opened + network.counts(client).opened;
  };
  const std::uint64_t before = num_opened();
  network.hold_requests(client, false);
  REQUIRE(two.progress_until([&] { return network.counts(client).links == 1; }));
  const std::uint64_t end = now_ns() + 300'000'000;
  REQUIRE(two.progress_until([&] { return now_ns() > end; }));
  CHECK(num_opened() == before);
  CHECK(network.counts(client).links == 1);
  CHECK(two.lost_at_client.ok());
  CHECK(two.lost_at_server.ok());
}

TEST_CASE("a peer that falls silent is lost after the timeout, and nothing hangs") {
  const Way way{"loopback", "loopback", {}, false};
  Two two(way, 300);
  std::vector<std::byte> own(4096);
  REQUIRE(two.server.register_memory(own.data(), own.size()).ok());
  MemoryKey key;
  REQUIRE(two.server.key(own.data(), kAllRights, key).ok());
  const PeerMemory remote = two.client.memory(two.at_client, key);
  Operation operation;
  two.client.get(remote, 0, own.data(), 8, operation);
  REQUIRE(two.wait(operation) == Code::ok);
  // Only the client moves on: as if the server's host had lost power.
  Operation gets, adds;
  std::uint64_t began = now_ns();
  two.client.get(remote, 0, own.data(), 8, gets);
  two.client.fetch_add(remote, 0, 1, adds);
  // The loopback's gets are done without the server; the silence of an answer is what is waited
  // for.
  const PeerMemory another = two.client.memory(two.at_client, MemoryKey{});
  Operation asks;
  two.client.get(another, 0, own.data(), 8, asks);
  CHECK(two.client.wait(asks) == Code::peer_lost);
  CHECK(now_ns() - began < 10'000'000'000u);
  CHECK(gets.is_done());
  CHECK(two.lost_at_client.text().find("server has been unreachable for 300 ms") !=
        std::string::npos);
}
