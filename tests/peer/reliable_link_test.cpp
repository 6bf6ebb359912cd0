// When the receiver acknowledges: by what it sends anyway, else by a message of its own.
#include "peer/reliable_link.hpp"

#include <catch2/catch.hpp>
#include <utility>

#include "peer/turns.hpp"
#include "tests/support/kept_messages.hpp"

using namespace weft;
using namespace weft::transport;

namespace {

struct Side final : ReliableLink::Owner {
  explicit Side(bool breaks = true) : wire(1 << 20, breaks) {
    link.use(wire);
    link.set_opened(to_peer);
    if (!breaks) {
      link.set_up();
      return;
    }
    REQUIRE(link.receive({.kind = Kind::resume}, sizeof(Head), 1) == ReliableLink::Received::up);
    poll();
  }
  void make_busy() override { is_busy = true; }
  // What a poll does once it has shown what came.
  void poll() {
    if (std::exchange(is_busy, false)) link.pump();
  }
  void receive(std::size_t bytes) {
    const Head head{.kind = Kind::user, .flags = kNumbered, .number = ++num_received};
    REQUIRE(link.receive(head, bytes, 1) == ReliableLink::Received::fresh);
  }
  void send() {
    Head head{.kind = Kind::user};
    REQUIRE(link.post(head, sizeof head, {}) == Code::ok);
  }

  Wire wire;
  fabric::Link to_peer;
  ReliableLink link{*this};
  bool is_busy = false;
  std::uint32_t num_received = 0;
};

constexpr std::size_t kLong = 64 << 10;

}  // namespace

TEST_CASE("an answer carries the acknowledgement of a long message") {
  Side side;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    side.receive(kLong);
    side.poll();
    CHECK(side.wire.sent.size() == i - 1);
    side.send();
    side.poll();
    REQUIRE(side.wire.sent.size() == i);
    CHECK(side.wire.sent.back().kind == Kind::user);
    CHECK(side.wire.sent.back().acked == i);
  }
  CHECK_FALSE(side.is_busy);
}

TEST_CASE("where nothing else is sent the next poll acknowledges") {
  Side side;
  SECTION("a long message") { side.receive(kLong); }
  SECTION("many short ones") {
    for (int i = 0; i < 64; ++i) side.receive(sizeof(Head));
  }
  side.poll();
  CHECK(side.wire.sent.empty());
  CHECK(side.is_busy);
  side.poll();
  REQUIRE(side.wire.sent.size() == 1);
  CHECK(side.wire.sent.back().kind == Kind::ack);
  CHECK(side.wire.sent.back().acked == side.num_received);
  CHECK_FALSE(side.is_busy);
}

TEST_CASE("a ping is answered at once") {
  Side side;
  CHECK(side.link.receive({.kind = Kind::ping}, sizeof(Head), 1) ==
        ReliableLink::Received::nothing);
  side.poll();
  REQUIRE(side.wire.sent.size() == 1);
  CHECK(side.wire.sent.back().kind == Kind::ack);
}

TEST_CASE("who takes a link tells which of its own it has left") {
  Side other;
  std::uint32_t asked = 0;
  while (asked < 3) asked = other.link.next_opening();
  REQUIRE(other.link.drop(1) == &other.to_peer);
  REQUIRE(other.link.take(other.to_peer, 0, 1));
  other.poll();
  REQUIRE_FALSE(other.wire.sent.empty());
  const Head told = other.wire.sent.back();
  REQUIRE(told.kind == Kind::resume);

  Side one;
  REQUIRE(one.link.drop(1) == &one.to_peer);
  one.link.set_opened(one.to_peer);
  CHECK_FALSE(one.link.has_left(asked));
  REQUIRE(one.link.receive(told, sizeof told, 1) == ReliableLink::Received::up);
  CHECK(one.link.has_left(asked));
  CHECK_FALSE(one.link.has_left(asked + 1));
}

TEST_CASE("numbers of links go on after the highest") {
  Side side;
  REQUIRE(side.link.drop(1) == &side.to_peer);
  REQUIRE(side.link.take(side.to_peer, 0, 0x7fff'fff0));
  for (std::uint32_t number : {0xffff'ff00u, 2u}) {
    CHECK_FALSE(side.link.has_left(number));
    REQUIRE(side.link.drop(1) == &side.to_peer);
    REQUIRE(side.link.take(side.to_peer, 0, number));
  }
  CHECK(side.link.has_left(0xffff'ff00));
  CHECK(side.link.has_left(2));
  CHECK_FALSE(side.link.has_left(3));
}

TEST_CASE("where nothing is kept, silence counts from what was sent, and room ends it") {
  Side side(false);
  constexpr std::uint64_t kTimeoutNs = 1000;
  const auto tick = [&](std::uint64_t now) { return side.link.tick(now, kTimeoutNs, false, true); };
  std::uint64_t now = 10'000;
  CHECK(tick(now) == ReliableLink::Due::nothing);
  CHECK(tick(now += 5 * kTimeoutNs) == ReliableLink::Due::nothing);
  side.send();
  CHECK(tick(now += kTimeoutNs / 2) == ReliableLink::Due::nothing);
  REQUIRE(!side.wire.sent.empty());
  CHECK(side.wire.sent.back().kind == Kind::ping);
  SECTION("an answer") {
    CHECK(side.link.receive({.kind = Kind::ack}, sizeof(Head), now) ==
          ReliableLink::Received::nothing);
    CHECK(tick(now += 5 * kTimeoutNs) == ReliableLink::Due::nothing);
  }
  SECTION("room that there was not before") {
    // Full whenever a ping is due, so none gets through.
    for (int i = 0; i < 20; ++i) {
      Head head{.kind = Kind::user};
      side.send();
      side.wire.room = 0;
      CHECK(side.link.post(head, sizeof head, {}) == Code::again);
      CHECK(tick(now += kTimeoutNs / 2) == ReliableLink::Due::nothing);
      side.wire.room = ~std::size_t{0};
    }
    side.wire.room = 0;
    CHECK(tick(now += kTimeoutNs + 1) == ReliableLink::Due::gone);
  }
  SECTION("neither") { CHECK(tick(now += kTimeoutNs) == ReliableLink::Due::gone); }
}

TEST_CASE("of links to peers the one that was used least recently gives way to one that waits") {
  constexpr std::uint64_t kMs = 1'000'000, kTimeoutNs = 8000 * kMs;
  std::uint64_t now = 1000 * kMs;
  Side busy, idle, waits;
  const auto tick = [&] {
    now += 10 * kMs;
    for (Side* side : {&busy, &idle})
      CHECK(side->link.tick(now, kTimeoutNs, true, true) == ReliableLink::Due::nothing);
  };
  const auto look = [&] {
    Turns turns(now);
    for (Side* side : {&idle, &waits, &busy}) turns.look(side->link);
    return turns;
  };
  CHECK_FALSE(look().any_waits());
  CHECK(look().to_rest() == nullptr);
  REQUIRE(waits.link.drop(now) == &waits.to_peer);
  waits.link.note_down(Code::no_memory, now);
  CHECK(look().any_waits());
  CHECK(look().to_open() == &waits.link);
  // What a peer answers to a ping, once a second, is no use.
  for (int i = 0; i < 300; ++i) {
    if (i % 20 == 0) busy.send();
    tick();
    for (Side* side : {&busy, &idle})
      if (!side->wire.sent.empty() && side->wire.sent.back().kind == Kind::ping) {
        side->wire.sent.clear();
        now += kMs;
        CHECK(side->link.receive({.kind = Kind::ack}, sizeof(Head), now) ==
              ReliableLink::Received::nothing);
      }
  }
  CHECK(look().to_rest() == &idle.link);
  idle.link.rest();
  CHECK(look().to_rest() == nullptr);  // one goes already
  idle.poll();
  CHECK(idle.wire.sent.back().kind == Kind::rest);
  CHECK(idle.link.on_rest(true));
  REQUIRE(idle.link.drop(now) == &idle.to_peer);
  waits.link.set_opened(waits.to_peer);
  CHECK(look().to_open() == nullptr);
  CHECK(look().to_rest() == nullptr);
  REQUIRE(waits.link.receive({.kind = Kind::resume}, sizeof(Head), now) ==
          ReliableLink::Received::up);
  CHECK_FALSE(look().any_waits());
  // It has its turn.
  CHECK_FALSE(waits.link.may_rest(now + kMs));
  CHECK(waits.link.may_rest(now + 100 * kMs));
}
