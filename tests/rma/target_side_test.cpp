// Gets, puts and atomics by the owner's side, message by message: breaks of the link, refusals, no
// room, and a peer that says what no peer of ours says.
#include "rma/target_side.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "rma/memory.hpp"
#include "tests/support/kept_messages.hpp"

using namespace weft;
using namespace weft::transport;

namespace {

constexpr std::size_t kMessageBytes = 256;  // the shortest that a fabric may have
constexpr std::uint64_t kKey = 7;

// One end: its memory, its requests, and what it has sent and nobody has read.
struct Side final : TargetSide::Memory {
  Side() {
    link.use(wire);
    come_up(0);
  }
  void come_up(std::uint32_t received) {
    link.set_opened(to_peer);
    REQUIRE(link.receive({.kind = Kind::resume, .acked = received}, sizeof(Head), 1) ==
            ReliableLink::Received::up);
    pump();
  }
  void go_down() {
    wire.sent.clear();
    (void)link.drop(1);
    target_side.on_link_end();
  }
  void make_busy() override { is_busy = true; }
  std::byte* find_shared(const RemoteRange& range, std::uint32_t rights, Code& code) override {
    code = range.key != kKey || (rights & lets) != rights ? Code::not_permitted
           : !is_within(range.address, std::max(range.bytes, range.room), 0, memory.size())
               ? Code::bad_argument
               : Code::ok;
    return code == Code::ok ? memory.data() + range.address : nullptr;
  }
  void pump() {
    while (std::exchange(is_busy, false)) {
      const std::size_t before = wire.sent.size();
      link.pump();
      if (!target_side.pump()) is_busy = true;
      if (wire.sent.size() == before) break;
    }
  }
  // False: a message makes no sense.
  bool take_all(Side& from) {
    for (auto& message : std::exchange(from.wire.sent, {}))
      if (!take(message)) return false;
    pump();
    return true;
  }
  bool take(const Wire::Sent& message) {
    if (link.receive(message, message.bytes.size(), 1) != ReliableLink::Received::fresh)
      return true;
    AccessRequest* one = nullptr;
    Code code = Code::ok;
    if (!target_side.on_message(message.kind, message.bytes, one, code)) return false;
    if (one != nullptr) ended.emplace_back(one, code);
    return true;
  }

  Wire wire{kMessageBytes};
  fabric::Link to_peer;
  ReliableLink link{*this};
  TargetSide target_side{link, *this};
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  std::uint32_t lets = fabric::kRead | fabric::kWrite | fabric::kAtomic;
  std::vector<std::pair<AccessRequest*, Code>> ended;
  bool is_busy = false;
};

struct Pair {
  Side asker, owner;
  // Until neither says anything more.
  bool talk() {
    do {
      if (!owner.take_all(asker) || !asker.take_all(owner)) return false;
    } while (!asker.wire.sent.empty());
    return true;
  }
  // What had arrived stays, what was under way is lost.
  void break_link() {
    asker.go_down();
    owner.go_down();
    const std::uint32_t at_asker = asker.link.num_received(), at_owner = owner.link.num_received();
    asker.come_up(at_owner);
    owner.come_up(at_asker);
  }
};

AccessRequest request(Access access, std::vector<std::byte>& local) {
  AccessRequest made;
  made.access = access;
  made.local = local.data();
  made.bytes = local.size();
  return made;
}

RemoteRange range(std::size_t address, std::size_t bytes) { return {kKey, address, bytes, bytes}; }

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7 + i / 256);
  return made;
}

}  // namespace

TEST_CASE("what is put is got, in any number of messages") {
  for (const std::size_t bytes : {0u, 1u, 8u, 191u, 192u, 193u, 1000u, 4096u}) {
    Pair pair;
    std::vector<std::byte> data = pattern(bytes), back(bytes);
    AccessRequest put = request(Access::put, data), get = request(Access::get, back);
    REQUIRE(pair.asker.target_side.post(put, range(4096 - bytes, bytes)) == Code::ok);
    REQUIRE(pair.asker.target_side.post(get, range(4096 - bytes, bytes)) == Code::ok);
    REQUIRE(pair.talk());
    REQUIRE(pair.asker.ended.size() == 2);
    for (const auto& [one, code] : pair.asker.ended) CHECK(code == Code::ok);
    CHECK(back == data);
  }
}

TEST_CASE("a link that breaks anywhere loses nothing and does nothing twice") {
  for (std::size_t room = 0; room < 40; ++room) {
    Pair pair;
    std::vector<std::byte> data = pattern(1500), back(1500), none;
    AccessRequest put = request(Access::put, data), get = request(Access::get, back);
    AccessRequest add = request(Access::fetch_add, none);
    add.bytes = 8;
    add.operand = 5;
    // The asker's messages, then the owner's, stop after some; the rest goes over the next link.
    pair.asker.wire.room = room;
    std::vector<std::pair<AccessRequest*, RemoteRange>> waiting = {
        {&put, range(8, 1500)}, {&add, range(2048, 8)}, {&get, range(8, 1500)}};
    auto post = [&] {
      while (!waiting.empty() && pair.asker.target_side.post(*waiting.front().first,
                                                             waiting.front().second) == Code::ok)
        waiting.erase(waiting.begin());
    };
    post();
    pair.owner.wire.room = room > 10 ? room - 10 : 0;
    REQUIRE(pair.owner.take_all(pair.asker));
    for (std::size_t i = 0; i < room / 2 && i < pair.owner.wire.sent.size(); ++i)
      REQUIRE(pair.asker.take(pair.owner.wire.sent[i]));
    pair.asker.wire.room = pair.owner.wire.room = ~std::size_t{0};
    pair.break_link();
    if (get.is_asked) {
      get.is_asked = false;
      waiting.emplace_back(&get, range(8, 1500));
    }
    for (int i = 0; i < 3; ++i) {
      pair.asker.pump();
      post();
      REQUIRE(pair.talk());
    }
    CHECK(pair.asker.ended.size() == 3);
    for (const auto& [one, code] : pair.asker.ended) CHECK(code == Code::ok);
    CHECK(back == data);
    std::uint64_t word = 0;
    std::memcpy(&word, pair.owner.memory.data() + 2048, 8);
    CHECK(word == 5);
    CHECK(add.previous == 0);
  }
}

TEST_CASE("what is not permitted or out of bounds is refused, and nothing changes") {
  Pair pair;
  std::vector<std::byte> data = pattern(1000), none;
  RemoteRange at = range(0, 1000);
  Code expected = Code::not_permitted;
  SECTION("another key") { at.key = 8; }
  SECTION("no right") { pair.owner.lets = 0; }
  SECTION("too far") {
    at.address = 4096 - 999;
    expected = Code::bad_argument;
  }
  SECTION("more than it takes for the memory's") {
    at.room = 4097;
    expected = Code::bad_argument;
  }
  AccessRequest put = request(Access::put, data), get = request(Access::get, data);
  AccessRequest add = request(Access::fetch_add, none);
  REQUIRE(pair.asker.target_side.post(put, at) == Code::ok);
  REQUIRE(pair.asker.target_side.post(get, at) == Code::ok);
  at.bytes = 8;
  at.address = std::max<std::uint64_t>(at.address, at.room > 1000 ? 0 : at.address);
  if (at.room == 1000 && at.address > 0) at.address = 4096;
  REQUIRE(pair.asker.target_side.post(add, at) == Code::ok);
  REQUIRE(pair.talk());
  REQUIRE(pair.asker.ended.size() == 3);
  for (const auto& [one, code] : pair.asker.ended) CHECK(code == expected);
  CHECK(pair.owner.memory == std::vector<std::byte>(4096));
}

TEST_CASE("a put that is refused while its pieces are still to go ends at its next post") {
  Pair pair;
  pair.owner.lets = 0;
  std::vector<std::byte> data(2000);
  AccessRequest put = request(Access::put, data);
  pair.asker.wire.room = 2;
  // What does not fit is kept by the link, until that has no room either.
  std::vector<std::byte> much(8 << 20);
  AccessRequest large = request(Access::put, much);
  REQUIRE(pair.asker.target_side.post(large, range(0, much.size())) == Code::again);
  REQUIRE(pair.owner.take_all(pair.asker));
  pair.asker.wire.room = ~std::size_t{0};
  REQUIRE(pair.asker.take_all(pair.owner));
  CHECK(pair.asker.ended.empty());
  CHECK(pair.asker.target_side.post(large, range(0, much.size())) == Code::not_permitted);
  REQUIRE(pair.talk());  // the answers to its further pieces
  CHECK(pair.asker.ended.empty());
  pair.owner.lets = fabric::kWrite;
  CHECK(pair.asker.target_side.post(put, range(0, data.size())) == Code::ok);
  REQUIRE(pair.talk());
  REQUIRE(pair.asker.ended.size() == 1);
  CHECK(pair.asker.ended[0].second == Code::ok);
}

TEST_CASE("only so many are under way, and answers that find no room wait") {
  Pair pair;
  std::vector<std::vector<std::byte>> to(300, std::vector<std::byte>(100));
  std::vector<AccessRequest> gets;
  for (auto& one : to) gets.push_back(request(Access::get, one));
  pair.owner.memory = pattern(4096);
  std::size_t num_posted = 0;
  while (pair.asker.target_side.post(gets[num_posted], range(num_posted, 100)) == Code::ok)
    ++num_posted;
  CHECK(num_posted == 256);
  pair.owner.wire.room = 10;
  while (pair.asker.ended.size() < num_posted) {
    const std::size_t before = pair.asker.ended.size();
    REQUIRE(pair.owner.take_all(pair.asker));
    REQUIRE(pair.asker.take_all(pair.owner));
    pair.owner.make_busy();
    pair.owner.pump();
    REQUIRE((pair.asker.ended.size() > before || !pair.owner.wire.sent.empty()));
  }
  for (std::size_t i = 0; i < num_posted; ++i)
    CHECK(std::equal(to[i].begin(), to[i].end(), pair.owner.memory.begin() + std::ptrdiff_t(i)));
  CHECK(pair.asker.target_side.post(gets[num_posted], range(0, 100)) == Code::ok);
}

TEST_CASE("an end of a get that comes over the next link before it is asked again does no harm") {
  Pair pair;
  std::vector<std::byte> to(100), none;
  AccessRequest refused = request(Access::get, to), empty = request(Access::get, none);
  REQUIRE(pair.asker.target_side.post(refused, range(5000, 100)) == Code::ok);
  REQUIRE(pair.asker.target_side.post(empty, range(0, 0)) == Code::ok);
  REQUIRE(pair.owner.take_all(pair.asker));
  pair.break_link();
  refused.is_asked = empty.is_asked = false;
  REQUIRE(pair.asker.take_all(pair.owner));
  CHECK(pair.asker.ended.empty());
  const Code code = pair.asker.target_side.post(refused, range(5000, 100));
  CHECK(pair.asker.target_side.post(empty, range(0, 0)) == Code::ok);
  REQUIRE(pair.talk());
  std::vector<std::pair<AccessRequest*, Code>> ended = pair.asker.ended;
  if (code != Code::ok) ended.emplace_back(&refused, code);
  REQUIRE(ended.size() == 2);
  for (const auto& [one, how] : ended)
    CHECK(how == (one == &refused ? Code::bad_argument : Code::ok));
}

TEST_CASE("what no peer of ours says ends the link, and touches nothing") {
  Pair pair;
  std::vector<std::byte> to(100);
  AccessRequest get = request(Access::get, to);
  REQUIRE(pair.asker.target_side.post(get, range(0, 100)) == Code::ok);
  AccessRequest* ended = nullptr;
  Code code = Code::ok;
  auto says = [&](const auto& message, std::size_t bytes = 0) {
    std::vector<std::byte> all(sizeof message + bytes, std::byte{1});
    std::memcpy(all.data(), &message, sizeof message);
    return pair.asker.target_side.on_message(message.kind, all, ended, code);
  };
  const std::uint32_t id = get.id;
  Head data{.kind = Kind::data, .id = id};
  DoneMessage done{};
  done.kind = Kind::done;
  done.id = id;
  SECTION("more data than were asked for") { CHECK_FALSE(says(data, 101)); }
  SECTION("no data") { CHECK_FALSE(says(data)); }
  SECTION("an end before the data") { CHECK_FALSE(says(done)); }
  SECTION("data of a get that was not asked for over this link") {
    get.is_asked = false;
    CHECK_FALSE(says(data, 100));
  }
  SECTION("another's id") {
    for (const std::uint32_t other : {0u, 0xffffu, id ^ 0x10000u, id + 1}) {
      data.id = done.id = other;
      CHECK(says(data, 100));
      CHECK(says(done));
    }
  }
  SECTION("too short") {
    CHECK_FALSE(pair.asker.target_side.on_message(Kind::put, as_bytes(data), ended, code));
    CHECK_FALSE(pair.asker.target_side.on_message(Kind::done, as_bytes(data), ended, code));
  }
  SECTION("a put with more, or less, than it says") {
    AccessMessage put{};
    put.kind = Kind::put;
    put.range = range(0, 8);
    CHECK_FALSE(says(put, 9));
    CHECK_FALSE(says(put, 0));
  }
  SECTION("an atomic on half a word") {
    AtomicMessage atomic{};
    atomic.kind = Kind::atomic;
    atomic.range = range(0, 4);
    CHECK_FALSE(says(atomic));
  }
  CHECK(ended == nullptr);
  CHECK(to == std::vector<std::byte>(100));
}
