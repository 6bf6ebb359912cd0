#pragma once
// What the conformance suite needs of a fabric: a way to make an endpoint of it in this process. To
// have another fabric tested, add a row to fabrics() in conformance_fabrics.cpp.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/settings.hpp"
#include "base/wait.hpp"
#include "fabric/endpoint.hpp"

namespace weft::fabric::testing {

struct FabricRow {
  std::string name;
  std::function<std::unique_ptr<Endpoint>()> make;
  // Why it is not known to refuse accesses; null: it does.
  const char* refuses_nothing = nullptr;
};
std::vector<FabricRow> fabrics();

// An endpoint on this host's loopback interface, of a fabric that WEFT_INTERFACE tells which.
template <auto kMake>
std::unique_ptr<Endpoint> on_loopback() {
  Settings settings;
  std::unique_ptr<Endpoint> endpoint;
  REQUIRE(settings.set("INTERFACE", "lo").ok());
  REQUIRE(kMake(settings, endpoint).ok());
  return endpoint;
}

inline constexpr std::uint64_t kDeadlineNs = 20'000'000'000;

// An endpoint and what it has told.
struct Side final : Events {
  explicit Side(const FabricRow& row) : endpoint(row.make()) {}
  ~Side() {
    for (Link* link : links) endpoint->close(*link);
  }
  bool on_incoming(Link& link, Bytes hello) override {
    last_hello.assign(reinterpret_cast<const char*>(hello.data()), hello.size());
    if (closes_incoming) endpoint->close(link);
    if (refuse || closes_incoming) return false;
    links.push_back(&link);
    ++ups;
    return true;
  }
  void on_up(Link&) override { ++ups; }
  void on_down(Link& link, Code why) override {
    ++downs;
    last_why = why;
    last_down = &link;
  }
  void on_message(Link&, Bytes bytes) override {
    messages.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (at_message) at_message();
  }
  void on_written(Link&, std::uint32_t number, std::size_t bytes) override {
    messages.push_back("written " + std::to_string(number) + " " + std::to_string(bytes));
    if (at_message) at_message();
  }
  void close(Link* link) {
    std::erase(links, link);
    endpoint->close(*link);
  }

  std::unique_ptr<Endpoint> endpoint;
  std::vector<Link*> links;
  int ups = 0, downs = 0;
  Link* last_down = nullptr;
  Code last_why = Code::ok;
  std::string last_hello;
  std::vector<std::string> messages;
  std::function<void()> at_message;
  bool refuse = false, closes_incoming = false;
};

struct Waiting : WorkRequest {
  Waiting() {
    done = [](WorkRequest& request, Code code) noexcept {
      auto& waiting = static_cast<Waiting&>(request);
      waiting.code = code;
      ++waiting.times;
    };
  }
  Code code = Code::again;
  int times = 0;
};

inline Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Two endpoints of a fabric with a link between them.
struct Pair {
  explicit Pair(const FabricRow& of) : row(of), a(of), b(of) {}
  // libfabric's shm writes to a peer of the same process where that was, even if it has ended.
  ~Pair() {
    for (Side* side : {&a, &b})
      while (!side->links.empty()) side->close(side->links.back());
  }

  template <class F>
  bool poll_until(F&& done) {
    for (const std::uint64_t limit = now_ns() + kDeadlineNs; !done();) {
      a.endpoint->poll(a);
      b.endpoint->poll(b);
      if (now_ns() > limit) return false;
    }
    return true;
  }

  // A link from a to b; its two ends.
  std::pair<Link*, Link*> connect(std::string_view hello = "hello") {
    Link *here = nullptr, *there = nullptr;
    const std::string address = b.endpoint->address();
    if (address.empty()) {
      std::vector<int> descriptors;
      REQUIRE(a.endpoint->mapped() != nullptr);
      REQUIRE(a.endpoint->mapped()->offer(here, descriptors).ok());
      REQUIRE(b.endpoint->mapped()->accept(descriptors, there).ok());
      a.links.push_back(here);
      b.links.push_back(there);
      return {here, there};
    }
    const int ups_a = a.ups, ups_b = b.ups;
    REQUIRE(a.endpoint->open(bytes_of(address), bytes_of(hello), here).ok());
    a.links.push_back(here);
    REQUIRE(poll_until([&] { return a.ups > ups_a && b.ups > ups_b; }));
    return {here, b.links.back()};
  }

  Code wait(const Waiting& request) {
    return poll_until([&] { return request.times > 0; }) ? request.code : Code::timed_out;
  }

  // The result of a call that posts, once there is room.
  template <class F>
  Code post(F&& call) {
    Code code = Code::again;
    poll_until([&] { return (code = call()) != Code::again; });
    return code;
  }

  const FabricRow& row;
  Side a, b;
};

}  // namespace weft::fabric::testing
