#pragma once
// Two Nodes of one process that are connected, for tests of what goes on between them.
#include <stdlib.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/wait.hpp"
#include "peer/address.hpp"
#include "tests/support/loopback/loopback.hpp"
#include "weft/node.hpp"

namespace weft::test {

using fabric::loopback::Network;

inline constexpr std::uint64_t kDeadlineNs = 30'000'000'000;

// What a Node with devices of the loopback is known by, one address a device.
inline std::vector<std::string> devices_of(Node& node) {
  std::string text;
  peer::NodeAddress address;
  REQUIRE(node.address(text).ok());
  REQUIRE(peer::from_text(text, address).ok());
  std::vector<std::string> devices;
  for (const auto& item : address.fabrics) devices.push_back(item.address);
  return devices;
}

// Polls until it is done; false: not within the time.
template <class Poll, class Done>
bool polled_until(Poll&& poll, Done&& done, std::uint64_t ns = kDeadlineNs) {
  for (const std::uint64_t limit = now_ns() + ns; !done();) {
    poll();
    if (now_ns() > limit) return false;
  }
  return true;
}

struct Way {
  const char* name;
  const char* fabrics;
  fabric::loopback::Options options;
  bool progress_thread;
  std::optional<fabric::loopback::Options> second = {};  // of a second device, where it differs
};
// A server and a client that are connected.
struct Two {
  explicit Two(const Way& way, int timeout_ms = 10'000)
      : server(settings(way, "server", timeout_ms)),
        owned(std::make_unique<Node>(settings(way, "client", timeout_ms))),
        client(*owned) {
    server.on_peer([this](const Peer& peer) { at_server = peer; });
    server.on_lost([this](const Peer&, const Status& why) { lost_at_server = why; });
    client.on_lost([this](const Peer&, const Status& why) { lost_at_client = why; });
    std::string address;
    REQUIRE(server.address(address).ok());
    bool done = false;
    client.connect_async(address, [&](Status status, Peer peer) {
      INFO(status.text());
      CHECK(status.ok());
      at_client = peer;
      done = true;
    });
    REQUIRE(progress_until([&] { return done && (at_server || !at_client); }));
    REQUIRE(at_client);
    CHECK(at_client.name() == "server");
    CHECK(at_server.name() == "client");
    CHECK(at_client.generation() == server.generation());
  }
  ~Two() {
    // Its goodbye wants an answer.
    std::atomic<bool> done{false};
    std::thread leaves([&] {
      owned.reset();
      done = true;
    });
    while (!done) server.progress();
    leaves.join();
  }
  static NodeSettings settings(const Way& way, std::string name, int timeout_ms) {
    Network::of_process()->set_options(way.options, way.second.value_or(way.options));
    const char* provider = ::getenv("WEFT_OFI_PROVIDER");
    // Which is on no interface.
    if (provider == nullptr || std::string(provider) != "shm") ::setenv("WEFT_INTERFACE", "lo", 1);
    return {.name = std::move(name),
            .secret = "secret",
            .timeout_ms = timeout_ms,
            .fabrics = way.fabrics,
            .progress_thread = way.progress_thread};
  }
  template <class F>
  bool progress_until(F&& done) {
    const auto poll = [this] {
      server.progress();
      client.progress();
    };
    return polled_until(poll, done);
  }
  // The server's memory, as the client names it.
  PeerMemory remote(void* memory, std::size_t bytes, std::uint32_t rights = kAllRights) {
    REQUIRE(server.register_memory(memory, bytes).ok());
    MemoryKey key;
    REQUIRE(server.key(memory, rights, key).ok());
    return client.memory(at_client, key);
  }
  Code wait(const Operation& operation) {
    return progress_until([&] { return operation.is_done(); }) ? operation.code() : Code::timed_out;
  }
  // The calls write to these for as long as there are Nodes.
  Peer at_server, at_client;
  Status lost_at_server, lost_at_client;
  Node server;
  std::unique_ptr<Node> owned;
  Node& client;
};

inline const Way kLoopbackWays[] = {
    {"loopback", "loopback", {}, false},
    {"loopback that does messages only",
     "loopback",
     {.message_max = 512, .puts = false, .gets = false, .atomics = false},
     false},
    {"loopback, with threads", "loopback", {.message_max = 300, .atomics = false}, true},
    {"two devices of the loopback", "loopback,loopback", {.links = 3}, false},
    {"two devices of the loopback, with threads", "loopback,loopback", {.links = 3}, true},
};

struct Faulty {
  explicit Faulty(const fabric::loopback::Faults& faults) {
    Network::of_process()->set_faults(faults);
  }
  Faulty(std::uint64_t seed, std::uint32_t delay_us, std::uint32_t cut_one_in)
      : Faulty(fabric::loopback::Faults{seed, delay_us, cut_one_in}) {}
  ~Faulty() { Network::of_process()->set_faults({}); }
};

}  // namespace weft::test
