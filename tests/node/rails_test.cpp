// Nodes with several devices, or several threads that post: the links beside the main one.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "two_nodes.hpp"

using namespace weft;
using namespace weft::test;

TEST_CASE("long transfers go over all devices, without one that is down until it is back") {
  Two two({"two devices", "loopback,loopback", {}, false}, 2000);
  constexpr std::size_t kWords = 1 << 19;  // 4 MiB: eight pieces
  std::vector<std::uint64_t> memory(kWords), data(kWords), copy(kWords);
  REQUIRE(two.server.register_memory(memory.data(), kWords * 8).ok());
  MemoryKey key;
  REQUIRE(two.server.key(memory.data(), kAllRights, key).ok());
  const PeerMemory remote = two.client.memory(two.at_client, key);
  std::uint64_t round = 0, notified = 0;
  two.server.on_notify([&](const Peer&, const NotifyTag& tag) {
    std::uint64_t number;
    std::memcpy(&number, tag.data(), sizeof number);
    CHECK(number == ++notified);
    CHECK(memory == data);  // all pieces are there
  });
  const auto transfer = [&] {
    ++round;
    for (std::size_t i = 0; i < kWords; ++i) data[i] = round * kWords + i;
    NotifyTag tag{};
    std::memcpy(tag.data(), &round, sizeof round);
    Operation put, get;
    two.client.put_notify(remote, 0, data.data(), kWords * 8, tag, put);
    REQUIRE(two.wait(put) == Code::ok);
    REQUIRE(two.progress_until([&] { return notified == round; }));
    two.client.get(remote, 0, copy.data(), kWords * 8, get);
    REQUIRE(two.wait(get) == Code::ok);
    REQUIRE(copy == data);
  };
  const std::vector<std::string> devices = devices_of(two.server);
  REQUIRE(devices.size() == 2);
  const auto served = [&](std::size_t device) {
    return Network::of_process()->counts(devices[device]).bytes;
  };
  // Transfers until both devices take part.
  const auto use_both = [&] {
    const std::uint64_t first = served(0), second = served(1);
    for (const std::uint64_t limit = now_ns() + kDeadlineNs; now_ns() < limit;) {
      transfer();
      if (served(0) > first && served(1) > second) return true;
    }
    return false;
  };
  REQUIRE(use_both());
  for (const std::size_t down : {1, 0, 1}) {
    INFO("device " << down << " is down");
    Network::of_process()->silence(devices[down], true);
    transfer();
    const std::uint64_t before = served(down);
    transfer();
    CHECK(served(down) == before);
    Network::of_process()->silence(devices[down], false);
    REQUIRE(use_both());
  }
  // The owner takes it back in the middle of a transfer.
  Operation last;
  two.client.put(remote, 0, data.data(), kWords * 8, last);
  std::atomic<bool> is_back{false};
  std::thread takes_back([&] {
    CHECK(two.server.deregister_memory(memory.data()).ok());
    is_back = true;
  });
  REQUIRE(two.progress_until([&] { return is_back.load(); }));
  takes_back.join();
  std::ranges::fill(memory, 7);
  const Code code = two.wait(last);
  CHECK((code == Code::ok || code == Code::not_permitted));
  CHECK(std::ranges::count(memory, 7u) == kWords);
  CHECK(two.lost_at_client.ok());
  CHECK(two.lost_at_server.ok());
}

TEST_CASE("a transfer over several devices ends with its peer") {
  Two two({"two devices", "loopback,loopback", {}, false}, 500);
  std::vector<std::byte> memory(16 << 20), copy(memory.size());
  REQUIRE(two.server.register_memory(memory.data(), memory.size()).ok());
  MemoryKey key;
  REQUIRE(two.server.key(memory.data(), kAllRights, key).ok());
  const PeerMemory remote = two.client.memory(two.at_client, key);
  Operation get;
  for (int i = 0; i < 3; ++i) {
    two.client.get(remote, 0, copy.data(), copy.size(), get);
    REQUIRE(two.wait(get) == Code::ok);
  }
  for (const std::string& device : devices_of(two.server))
    Network::of_process()->silence(device, true);
  std::array<Operation, 4> operations;
  for (Operation& operation : operations)
    two.client.get(remote, 0, copy.data(), copy.size(), operation);
  for (Operation& operation : operations) CHECK(two.wait(operation) == Code::peer_lost);
  CHECK(two.lost_at_client == Code::peer_lost);
  for (const std::string& device : devices_of(two.server))
    Network::of_process()->silence(device, false);
}

TEST_CASE("each thread that posts has a link of its own to a peer, up to the limit") {
  for (const unsigned links : {1u, 3u})
    for (const std::uint32_t cut_one_in : {0u, 200u}) {
      INFO(links << " links, cut one in " << cut_one_in);
      Two two({"loopback", "loopback", {.links = links}, false});
      constexpr std::size_t kThreads = 5, kSteps = 300, kWords = 64;
      std::vector<std::uint64_t> memory(kThreads * kWords + 1);
      REQUIRE(two.server.register_memory(memory.data(), memory.size() * 8).ok());
      MemoryKey key;
      REQUIRE(two.server.key(memory.data(), kAllRights, key).ok());
      const PeerMemory remote = two.client.memory(two.at_client, key);
      const Faulty faulty(7, 0, cut_one_in);
      std::atomic<std::size_t> num_ended{0};
      std::atomic<std::uint64_t> num_added{0}, num_unknown{0}, num_wrong{0}, most_links{0};
      std::atomic<std::uint64_t> num_more{0};  // steps until all links have been seen
      std::atomic<bool> ends{cut_one_in != 0};
      std::vector<std::thread> threads;
      for (std::size_t self = 0; self < kThreads; ++self)
        threads.emplace_back([&, self] {
          const PeerMemory own = remote;
          std::array<std::uint64_t, kWords> data, copy;
          Operation operation;
          for (std::size_t step = 0; step < kSteps || (!ends && most_links < links); ++step) {
            if (step >= kSteps) ++num_more;
            data.fill(step << 8 | self);
            two.client.put(own, self * kWords * 8, data.data(), sizeof data, operation);
            if (two.client.wait(operation) != Code::ok) ++num_wrong;
            two.client.get(own, self * kWords * 8, copy.data(), sizeof copy, operation);
            if (two.client.wait(operation) != Code::ok || copy != data) ++num_wrong;
            two.client.fetch_add(own, kThreads * kWords * 8, 1, operation);
            const Code code = two.client.wait(operation);
            if (code == Code::ok)
              ++num_added;
            else if (code == Code::outcome_unknown)
              ++num_unknown;
            else
              ++num_wrong;
          }
          ++num_ended;
        });
      const std::string device = devices_of(two.server)[0];
      CHECK(two.progress_until([&] {
        most_links =
            std::max<std::uint64_t>(most_links, Network::of_process()->counts(device).links);
        return num_ended == kThreads;
      }));
      ends = true;
      for (std::thread& thread : threads) thread.join();
      CHECK(num_wrong == 0);
      CHECK(num_added + num_unknown == kThreads * kSteps + num_more);
      CHECK(memory.back() >= num_added);
      CHECK(memory.back() <= num_added + num_unknown);
      if (cut_one_in == 0) {
        CHECK(num_unknown == 0);
        CHECK(most_links == links);
      }
      CHECK(two.lost_at_client.ok());
      CHECK(two.lost_at_server.ok());
    }
}

TEST_CASE("a thread's link stays when the peer's request for one comes late") {
  Two two({"loopback", "loopback", {.links = 2}, false});
  std::uint64_t at_server = 0, at_client = 0, got = 0;
  REQUIRE(two.server.register_memory(&at_server, 8).ok());
  REQUIRE(two.client.register_memory(&at_client, 8).ok());
  MemoryKey servers, clients;
  REQUIRE(two.server.key(&at_server, kAllRights, servers).ok());
  REQUIRE(two.client.key(&at_client, kAllRights, clients).ok());
  const PeerMemory to_server = two.client.memory(two.at_client, servers);
  const PeerMemory to_client = two.server.memory(two.at_server, clients);
  Operation here, there;
  const auto get_both = [&] {
    two.client.get(to_server, 0, &got, 8, here);
    two.server.get(to_client, 0, &got, 8, there);
  };
  get_both();  // the first thread of each side posts on the main link
  REQUIRE(two.wait(here) == Code::ok);
  REQUIRE(two.wait(there) == Code::ok);
  Network& network = *Network::of_process();
  const std::string server = devices_of(two.server)[0], client = devices_of(two.client)[0];
  for (const std::string& device : {server, client}) network.hold_requests(device, true);
  const std::uint64_t servers_links = network.counts(server).opened;
  const std::uint64_t clients_links = network.counts(client).opened;
  std::thread(get_both).join();
  REQUIRE(two.progress_until([&] {
    return here.is_done() && there.is_done() && network.counts(server).opened > servers_links &&
           network.counts(client).opened > clients_links;
  }));
  // The server takes the client's, and leaves its own.
  network.hold_requests(server, false);
  REQUIRE(two.progress_until([&] { return network.counts(server).links == 2; }));
  const auto progress_for = [&](std::uint64_t ns) {
    const std::uint64_t end = now_ns() + ns;
    return two.progress_until([&] { return now_ns() > end; });
  };
  REQUIRE(progress_for(100'000'000));
  network.hold_requests(client, false);
  REQUIRE(progress_for(300'000'000));
  CHECK(network.counts(client).links == 2);
  CHECK(network.counts(server).links == 2);
  CHECK(network.counts(server).opened == servers_links + 1);
  CHECK(network.counts(client).opened == clients_links + 1);
}
