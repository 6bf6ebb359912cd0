// Nodes of one process whose links break, or fall silent, by seed.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/os/descriptor.hpp"
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

namespace {

// This process's ends of connections to that port, or from it.
std::vector<int> connections(std::uint16_t port, bool is_listener) {
  std::vector<int> found;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in own{}, peer{};
    socklen_t length = sizeof own;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &(length = sizeof own)) == 0 &&
        own.sin_family == AF_INET && ntohs((is_listener ? own : peer).sin_port) == port)
      found.push_back(fd);
  }
  return found;
}

// Ends it with a reset, as kernels and firewalls do that give a silent one up. Nothing in this
// process hears of it.
void reset_connection(std::uint16_t port, bool is_listener) {
  const std::vector<int> found = connections(port, is_listener);
  REQUIRE(found.size() == 1);
  const linger at_once{1, 0};
  REQUIRE(::setsockopt(found[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  const Descriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::dup2(other.get(), found[0]) == found[0]);
}

// Of a Node that listens at 127.0.0.1.
std::string tcp_address_of(Node& node) {
  std::string text;
  peer::NodeAddress address;
  REQUIRE(node.address(text).ok());
  REQUIRE(peer::from_text(text, address).ok());
  for (const std::string& one : address.bootstraps)
    if (one.starts_with("127.0.0.1:")) return one;
  FAIL("it does not listen");
  return {};
}

std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

}  // namespace

TEST_CASE("a reset of the bootstrap connection ends no peer whose link is up") {
  Network::of_process()->set_options({});
  Node server({.name = "server", .secret = "secret", .timeout_ms = 1000, .fabrics = "loopback"});
  std::atomic<int> num_met{0}, num_lost{0}, num_heard{0};
  server.on_peer([&](const Peer&) { ++num_met; });
  server.on_lost([&](const Peer&, const Status&) { ++num_lost; });
  server.on_message([&](const Peer&, std::span<const std::byte>) { ++num_heard; });
  REQUIRE(server.listen("127.0.0.1:0").ok());
  const std::string address = tcp_address_of(server);
  auto client = std::make_unique<Node>(NodeSettings{
      .name = "client", .secret = "secret", .timeout_ms = 1000, .fabrics = "loopback"});
  client->on_lost([&](const Peer&, const Status&) { ++num_lost; });
  Peer at_client;
  REQUIRE(client->connect(address, at_client, 10'000).ok());
  const auto until = [&](auto&& done, std::uint64_t ns) {
    for (const std::uint64_t limit = now_ns() + ns; !done();) {
      server.wait_some(5);
      if (now_ns() > limit) return false;
    }
    return true;
  };
  REQUIRE(until([&] { return num_met > 0; }, kDeadlineNs));
  reset_connection(port_of(address), false);
  CHECK_FALSE(until([&] { return num_lost > 0; }, 2'000'000'000));
  REQUIRE(client->send(at_client, "hello", 5) == Code::ok);
  CHECK(until([&] { return num_heard == 1; }, kDeadlineNs));
  CHECK(num_lost == 0);
  // Its goodbye, or silence, tells the end all the same.
  client.reset();
  CHECK(until([&] { return num_lost == 1; }, kDeadlineNs));
}

TEST_CASE("a bootstrap connection may be silent for the longest timeout, too") {
  Network::of_process()->set_options({});
  const auto settings = [](const char* name) {
    return NodeSettings{.name = name,
                        .secret = "secret",
                        .timeout_ms = std::numeric_limits<int>::max(),
                        .fabrics = "loopback",
                        .progress_thread = true};
  };
  Node server(settings("server")), client(settings("client"));
  REQUIRE(server.listen("127.0.0.1:0").ok());
  Peer at_client;
  const std::string address = tcp_address_of(server);
  REQUIRE(client.connect(address, at_client, 10'000).ok());
  std::size_t num_seen = 0;
  for (const bool is_listener : {false, true})
    for (const int fd : connections(port_of(address), is_listener)) {
      int unanswered_ms = 0;
      socklen_t length = sizeof unanswered_ms;
      REQUIRE(::getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, &length) == 0);
      CHECK(unanswered_ms > 1'000'000'000);
      ++num_seen;
    }
  CHECK(num_seen == 2);
}

// Who has nothing to send hears of an end by its bootstrap connection. Without one it asks.
TEST_CASE(
    "the end of a peer is found after a reset of its bootstrap connection, also by the idle") {
  const bool rests = GENERATE(false, true), listens = GENERATE(false, true);
  INFO((listens ? "the server" : "the client") << (rests ? ", whose link rests" : ""));
  Network::of_process()->set_options({.most_links = rests ? 1u : 0u});
  const auto settings = [](const char* name) {
    return NodeSettings{.name = name, .secret = "secret", .timeout_ms = 500, .fabrics = "loopback"};
  };
  std::atomic<int> num_met{0}, num_lost{0}, num_others{0};
  Peer at_client;
  Node server(settings("server")), client(settings("client"));
  Node& idle = listens ? server : client;
  Node& ends = listens ? client : server;
  server.on_peer([&](const Peer&) { ++num_met; });
  idle.on_lost(
      [&](const Peer& peer, const Status&) { ++(peer.name() == "third" ? num_others : num_lost); });
  const auto until = [&](auto&& done, std::uint64_t ns) {
    for (const std::uint64_t limit = now_ns() + ns; !done();) {
      server.progress();
      client.progress();
      ::usleep(200);
      if (now_ns() > limit) return false;
    }
    return true;
  };
  REQUIRE(server.listen("127.0.0.1:0").ok());
  const std::string address = tcp_address_of(server);
  const auto connect = [&](Node& from, const std::string& to, Peer& peer) {
    std::atomic<bool> is_done{false};
    from.connect_async(to, [&](const Status&, Peer made) {
      peer = made;
      is_done = true;
    });
    return until([&] { return is_done.load(); }, kDeadlineNs) && bool(peer);
  };
  REQUIRE(connect(client, address, at_client));
  REQUIRE(until([&] { return num_met > 0; }, kDeadlineNs));
  std::optional<Node> third;
  std::thread thread;
  std::atomic<bool> stops{false};
  Peer at_idle;
  if (rests) {  // it takes the only link of who is idle
    third.emplace(settings("third"));
    std::string text;
    REQUIRE(third->address(text).ok());
    thread = std::thread([&] {
      while (!stops) third->wait_some(1);
    });
    CHECK(connect(idle, text, at_idle));
  }
  reset_connection(port_of(address), !listens);
  // Who lives is asked, and answers.
  CHECK_FALSE(until([&] { return num_lost > 0; }, 1'200'000'000));
  const std::string device = devices_of(ends).front();
  Network::of_process()->silence(device, true);
  CHECK(until([&] { return num_lost == 1; }, 3'500'000'000));
  CHECK(num_others == 0);
  Network::of_process()->silence(device, false);
  Network::of_process()->set_options({});
  stops = true;
  if (thread.joinable()) thread.join();
}

TEST_CASE("a process that is killed after a reset of its bootstrap connection is lost in time") {
  const std::string fabric = GENERATE("tcp", "ofi");
  const bool connects = GENERATE(false, true);
  INFO("over " << fabric << (connects ? ", by who connects" : ""));
  ::setenv("WEFT_INTERFACE", "lo", 1);
  const auto settings = [&](const char* name) {
    return NodeSettings{.name = name, .secret = "secret", .timeout_ms = 1000, .fabrics = fabric};
  };
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  std::array<Descriptor, 2> pair{Descriptor(ends[0]), Descriptor(ends[1])};
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  const Descriptor other = std::move(pair[child == 0 ? 1 : 0]);
  pair = {};
  const auto say = [&](const std::string& text) {
    const std::size_t bytes = text.size() + 1;
    REQUIRE(::send(other.get(), text.c_str(), bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes));
  };
  const auto hear = [&] {  // nothing: it has ended
    std::string text;
    for (char letter = 0; ::read(other.get(), &letter, 1) == 1 && letter != 0;) text += letter;
    return text;
  };
  std::atomic<int> num_met{0}, num_lost{0};
  const auto serve = [&](Node& node) {
    node.on_peer([&](const Peer&) { ++num_met; });
    node.on_lost([&](const Peer&, const Status&) { ++num_lost; });
  };
  if (child == 0) {  // the one that is killed
    ::alarm(60);
    try {
      Node node(settings("killed"));
      serve(node);
      std::uint16_t port = 0;
      Peer peer;
      if (connects) {
        if (!node.listen("127.0.0.1:0").ok()) ::_exit(1);
        const std::string address = tcp_address_of(node);
        port = port_of(address);
        say(address);
      } else {
        const std::string address = hear();
        port = port_of(address);
        if (!node.connect(address, peer, 10'000).ok()) ::_exit(1);
        num_met = 1;
      }
      while (num_met == 0) node.wait_some(5);
      for (int i = 0; i < 20; ++i) node.wait_some(5);
      reset_connection(port, connects);
      say("reset");
      for (;;) node.wait_some(5);
    } catch (...) {
      ::_exit(1);
    }
  }
  std::optional<Node> node;
  try {
    node.emplace(settings("node"));
  } catch (const Error&) {  // this fabric is not there
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return;
  }
  serve(*node);
  Peer peer;
  const auto until = [&](auto&& done, std::uint64_t ns) {
    for (const std::uint64_t limit = now_ns() + ns; !done();) {
      node->wait_some(5);
      if (now_ns() > limit) return false;
    }
    return true;
  };
  if (connects) {
    CHECK(node->connect(hear(), peer, 10'000).ok());
  } else {
    CHECK(node->listen("127.0.0.1:0").ok());
    say(tcp_address_of(*node));
    CHECK(until([&] { return num_met > 0; }, kDeadlineNs));
  }
  CHECK_FALSE(until([&] { return num_lost > 0; }, 200'000'000));
  CHECK(hear() == "reset");
  CHECK_FALSE(until([&] { return num_lost > 0; }, 1'200'000'000));
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(until([&] { return num_lost == 1; }, 4'000'000'000));
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
