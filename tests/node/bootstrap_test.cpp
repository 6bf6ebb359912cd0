// Bootstrap connections that are reset, or silent for long, and the ends of peers that they do not
// tell then.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <string>
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
    return polled_until([&] { server.wait_some(5); }, done, ns);
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
  const auto poll = [&] {
    server.progress();
    client.progress();
    ::usleep(200);
  };
  const auto until = [&](auto&& done, std::uint64_t ns) { return polled_until(poll, done, ns); };
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
    return polled_until([&] { node->wait_some(5); }, done, ns);
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
