// Nodes on devices that have fewer links than they have peers: links take turns, and nothing is
// lost, doubled or unknown.
#include <array>
#include <barrier>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>

#include "all_talk.hpp"
#include "peer/address.hpp"
#include "tests/support/loopback/loopback.hpp"
#include "two_nodes.hpp"

using namespace weft;
using namespace weft::test;

namespace {

struct OneProcess final : Board {
  explicit OneProcess(std::size_t nodes)
      : all(nodes), meeting(static_cast<std::ptrdiff_t>(nodes)) {}
  std::vector<std::string> exchange(std::size_t self, const std::string& address) override {
    all[self] = address;
    meeting.arrive_and_wait();
    return all;
  }
  void barrier() override { meeting.arrive_and_wait(); }
  std::vector<std::string> all;
  std::barrier<> meeting;
};

// Of a Node, the device's.
std::string device_of(const std::string& text) {
  peer::NodeAddress address;
  return peer::from_text(text, address).ok() ? address.fabrics.front().address : "";
}

// Returns how often there was no room.
std::size_t talk(const Talk& how, const fabric::loopback::Options& options,
                 const fabric::loopback::Faults& faults = {}) {
  ::setenv("WEFT_FABRIC", "loopback", 1);
  Network::of_process()->set_options(options);
  const Faulty faulty(faults);
  OneProcess board(how.nodes);
  std::vector<std::string> wrong(how.nodes);
  std::atomic<std::size_t> num_refused{0};
  std::vector<std::thread> threads;
  for (std::size_t self = 0; self < how.nodes; ++self)
    threads.emplace_back([&, self] {
      {
        Talker talker(how, self, board);
        wrong[self] = talker.run();
        num_refused += Network::of_process()->counts(device_of(board.all[self])).refused;
        board.barrier();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& one : wrong) CHECK(one == "");
  return num_refused;
}

constexpr std::uint64_t kLimitNs = 60'000'000'000;

}  // namespace

TEST_CASE("4 Nodes of 8 threads on devices of 3 links: threads share the main ones") {
  for (const unsigned links : {1u, 4u}) {
    INFO(links << " links a peer");
    talk({.nodes = 4, .threads = 8, .steps = 100, .timeout_ms = 5000, .limit_ns = kLimitNs},
         {.links = links, .most_links = 3});
  }
}

TEST_CASE("4 Nodes of 2 threads on devices of 2 links, and 3 on devices of 1: links take turns") {
  CHECK(talk({.nodes = 4, .threads = 2, .steps = 30, .timeout_ms = 3000, .limit_ns = kLimitNs},
             {.links = 2, .most_links = 2}) > 0);
  CHECK(talk({.nodes = 3, .threads = 1, .steps = 20, .timeout_ms = 3000, .limit_ns = kLimitNs},
             {.most_links = 1}) > 0);
}

TEST_CASE("links that take turns break, too, and are slow") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed);
    const fabric::loopback::Options options{.puts = seed % 2 == 0,
                                            .gets = seed % 2 == 0,
                                            .atomics = seed > 2,
                                            .links = 2,
                                            .most_links = 2};
    talk({.nodes = 4, .threads = 2, .steps = 15, .timeout_ms = 5000, .limit_ns = kLimitNs}, options,
         {.seed = seed, .max_delay_us = 300});
    talk({.nodes = 4,
          .threads = 2,
          .steps = 15,
          .timeout_ms = 5000,
          .limit_ns = kLimitNs,
          .is_faulty = true},
         options, {.seed = seed, .max_delay_us = 50, .cut_one_in = 200});
  }
}

namespace {

// A hub whose device has room for one link, and Nodes that it knows all of.
struct Hub {
  explicit Hub(std::size_t count, int timeout_ms) {
    Network::of_process()->set_options({.most_links = 1});
    hub.emplace(settings("hub", timeout_ms));
    hub->on_lost([this](const Peer&, const Status&) { ++num_lost; });
    hub->on_message([this](const Peer&, std::span<const std::byte>) { ++num_heard; });
    hub->on_peer([this](const Peer& peer) {
      const std::lock_guard lock(this->lock);
      at_hub.push_back(peer);
    });
    std::string address;
    REQUIRE(hub->address(address).ok());
    for (std::size_t i = 0; i < count; ++i) {
      auto& one =
          nodes.emplace_back(std::make_unique<Node>(settings(std::to_string(i), timeout_ms)));
      one->on_lost([this](const Peer&, const Status&) { ++num_lost; });
      const Status status = one->connect(address, peers.emplace_back(), 10'000);
      INFO(status.text());
      REQUIRE(status.ok());
    }
    REQUIRE(until([this] {
      const std::lock_guard lock(this->lock);
      return at_hub.size() == peers.size();
    }));
  }
  static NodeSettings settings(const std::string& name, int timeout_ms) {
    return {.name = name, .secret = "secret", .timeout_ms = timeout_ms, .fabrics = "loopback"};
  }
  Peer find(const std::string& name) {
    for (const Peer& peer : at_hub)
      if (peer.name() == name) return peer;
    return {};
  }
  template <class F>
  bool until(F&& done, std::uint64_t ns = kDeadlineNs) {
    return polled_until([this] { hub->wait_some(5); }, done, ns);
  }
  std::mutex lock;
  std::vector<Peer> at_hub, peers;
  std::atomic<int> num_lost{0}, num_heard{0};
  std::optional<Node> hub;
  std::vector<std::unique_ptr<Node>> nodes;
};

}  // namespace

TEST_CASE("peers whose links rest are not lost, and either side takes them up again") {
  Hub all(3, 400);
  CHECK_FALSE(all.until([&] { return all.num_lost > 0; }, 1'500'000'000));
  for (int round = 1; round <= 3; ++round) {
    for (std::size_t i = 0; i < 3; ++i)
      REQUIRE(all.nodes[i]->send(all.peers[i], "hello", 5) == Code::ok);
    CHECK(all.until([&] { return all.num_heard == 3 * round; }));
  }
  std::atomic<int> num_answers{0};
  for (const auto& one : all.nodes)
    one->on_message([&](const Peer&, std::span<const std::byte>) { ++num_answers; });
  for (const Peer& peer : all.at_hub) REQUIRE(all.hub->send(peer, "hello", 5) == Code::ok);
  CHECK(all.until([&] { return num_answers == 3; }));
  CHECK(all.num_lost == 0);
}

TEST_CASE("a peer that ends, or falls silent, while its link rests is lost in time") {
  Hub all(3, 1000);
  std::uint64_t word = 0, got = 0;
  // The last one's link is up; those of the others rest.
  Node& silent = *all.nodes[0];
  REQUIRE(silent.register_memory(&word, 8).ok());
  MemoryKey key;
  REQUIRE(silent.key(&word, kAllRights, key).ok());
  std::string text;
  REQUIRE(silent.address(text).ok());
  Network::of_process()->silence(device_of(text), true);
  const Peer at_hub = all.find("0");
  Operation operation;
  const std::uint64_t began = now_ns();
  all.hub->get(all.hub->memory(at_hub, key), 0, &got, 8, operation);
  CHECK(all.hub->wait(operation, 20'000) == Code::peer_lost);
  CHECK(now_ns() - began < 5'000'000'000u);
  CHECK(at_hub.is_lost());
  Network::of_process()->silence(device_of(text), false);
  const Peer ends = all.find("1");
  CHECK_FALSE(ends.is_lost());
  all.nodes[1].reset();
  CHECK(all.until([&] { return ends.is_lost(); }));
  // The room is free for who is left.
  REQUIRE(all.nodes[2]->send(all.peers[2], "hello", 5) == Code::ok);
  CHECK(all.until([&] { return all.num_heard == 1; }));
}

TEST_CASE("the links of threads go first, and cut no atomic off") {
  Two two({"loopback", "loopback", {.links = 4, .most_links = 4}, false});
  const Faulty slow(7, 300, 0);  // so that there is always something under way
  std::uint64_t word = 0;
  const PeerMemory remote = two.remote(&word, 8);
  std::string address;
  REQUIRE(two.server.address(address).ok());
  const auto links = [&] { return Network::of_process()->counts(device_of(address)).links; };
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> num_added{0}, num_wrong{0};
  std::vector<std::thread> threads;
  for (int self = 0; self < 4; ++self)
    threads.emplace_back([&] {
      const PeerMemory own = remote;
      while (!ends) {
        Operation operation;
        two.client.fetch_add(own, 0, 1, operation);
        if (two.client.wait(operation) == Code::ok)
          ++num_added;
        else
          ++num_wrong;
      }
    });
  CHECK(two.progress_until([&] { return links() >= 4; }));
  std::optional<Node> third;
  third.emplace(Hub::settings("third", 10'000));
  std::atomic<bool> is_there{false};
  Peer there;
  Status status;
  third->connect_async(address, [&](Status how, Peer peer) {
    status = std::move(how);
    there = peer;
    is_there = true;
  });
  CHECK(two.progress_until([&] { return is_there.load(); }));
  CHECK(status.ok());
  const std::uint64_t before = num_added;
  CHECK(two.progress_until([&] { return num_added > before + 1000; }));
  ends = true;
  for (std::thread& thread : threads) {
    std::atomic<bool> is_joined{false};
    std::thread join([&] {
      thread.join();
      is_joined = true;
    });
    CHECK(two.progress_until([&] { return is_joined.load(); }));
    join.join();
  }
  CHECK(num_wrong == 0);
  CHECK(std::atomic_ref(word).load() == num_added);
  CHECK(two.lost_at_client.ok());
  CHECK(two.lost_at_server.ok());
  std::atomic<bool> has_left{false};
  std::thread leaves([&] {
    third.reset();
    has_left = true;
  });
  CHECK(two.progress_until([&] { return has_left.load(); }));
  leaves.join();
}

// Who opened the link of a thread may hear that it is up after the peer has given it up.
TEST_CASE("the link of a thread that comes up late is not used when the peer has given it up") {
  Two two({"loopback", "loopback", {.links = 2, .most_links = 2}, false});
  const Faulty slow(7, 5000, 0);  // so that there is always something under way
  std::uint64_t word = 0;
  const PeerMemory remote = two.remote(&word, 8);
  Operation first;
  two.client.fetch_add(remote, 0, 1, first);  // the main link is this thread's
  REQUIRE(two.wait(first) == Code::ok);
  Network& network = *Network::of_process();
  std::string address;
  REQUIRE(two.server.address(address).ok());
  const std::string server = device_of(address), client = devices_of(two.client).front();
  network.hold_ups(client, true);
  std::atomic<bool> ends{false};
  std::atomic<int> num_wrong{0};
  std::thread thread([&] {
    const PeerMemory own = remote;
    std::array<Operation, 32> operations;
    for (Operation& one : operations) two.client.fetch_add(own, 0, 1, one);
    for (std::size_t i = 0; !ends || i % operations.size() != 0; ++i) {
      Operation& one = operations[i % operations.size()];
      while (!one.is_done()) std::this_thread::yield();
      num_wrong += one.code() != Code::ok;
      if (!ends) two.client.fetch_add(own, 0, 1, one);
    }
  });
  CHECK(two.progress_until([&] { return network.counts(server).links == 2; }));
  const std::uint64_t quiet = now_ns() + 50'000'000;
  CHECK(two.progress_until([&] { return now_ns() > quiet; }));
  const std::uint64_t num_before = network.counts(client).messages;
  Node third(Hub::settings("third", 10'000));
  std::atomic<bool> is_there{false};
  third.connect_async(address, [&](const Status& status, Peer) { is_there = status.ok(); });
  const auto poll = [&] {
    two.server.progress();
    two.client.progress();
    third.progress();
  };
  const auto until = [&](auto&& done, std::uint64_t ns) { return polled_until(poll, done, ns); };
  CHECK(until([&] { return network.counts(client).messages > num_before; }, kDeadlineNs));
  network.hold_ups(client, false);
  CHECK(until([&] { return is_there.load(); }, 5'000'000'000));
  ends = true;
  std::atomic<bool> is_joined{false};
  std::thread join([&] {
    thread.join();
    is_joined = true;
  });
  CHECK(until([&] { return is_joined.load(); }, kDeadlineNs));
  join.join();
  CHECK(num_wrong == 0);
}
