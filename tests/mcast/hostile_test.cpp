// A member that knows the secret and sends what it likes: the others go on or fail the group with
// its name, and nothing crashes, hangs or is written where it should not.
#include <algorithm>
#include <latch>
#include <random>
#include <thread>

#include "mcast/group/multicast_impl.hpp"
#include "mcast/group/wire.hpp"
#include "team.hpp"

using namespace weft;
using namespace weft::mcast;
using namespace weft::testing;

namespace {

// Speaks the protocol as far as it must to be taken for member 2.
class Hostile {
 public:
  // native: as if it could receive datagrams, had heard some and had all buffers.
  explicit Hostile(bool is_native = false)
      : node({.name = "hostile",
              .secret = "secret",
              .fabrics = is_native ? "ofi" : "shm",
              .progress_thread = false}) {
    if (is_native) REQUIRE(node.listen("127.0.0.1:0").ok());
    REQUIRE(node.address(address).ok());
    node.on_peer([this](const Peer& peer) { peers.push_back(peer); });
    node.on_message([this, is_native](const Peer& peer, std::span<const std::byte> bytes) {
      HelloMessage hello;
      std::span<const std::byte> rest;
      if (!read_message(bytes, hello, rest) || hello.kind != Kind::hello) return;
      handle = hello.handle;
      hello.rank = 2;
      hello.handle = 77;
      send(peer, hello);
      if (!is_native || peer.name() != "m1") return;  // its parent
      const auto head = [&](Kind kind) {
        return Head{.kind = kind, .rank = 2, .group = hello.group, .to = handle};
      };
      send(peer, JoinedMessage{head(Kind::joined), 1472, 100});
      send(peer, head(Kind::heard));
      send(peer, CountMessage{head(Kind::able), 10});
    });
  }
  template <class Message>
  void send(const Peer& peer, const Message& message, std::size_t more = 0) {
    std::vector<std::byte> bytes(sizeof message + more);
    std::memcpy(bytes.data(), &message, sizeof message);
    [[maybe_unused]] const Code code = node.send(peer, bytes.data(), bytes.size());
  }
  void identify(const Peer& peer) {
    std::vector<std::byte> bytes(sizeof(Head) + address.size());
    const Head head{.kind = Kind::identify,
                    .text_bytes = static_cast<std::uint32_t>(address.size())};
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, address.data(), address.size());
    REQUIRE(node.send(peer, bytes.data(), bytes.size()) == Code::ok);
  }

  Node node;
  std::string address;
  std::vector<Peer> peers;
  std::atomic<std::uint64_t> handle{0};
};

}  // namespace

TEST_CASE("a member that sends anything harms nobody") {
  const bool is_native = GENERATE(false, true);
  int num_failed = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Team team(is_native ? Way{"ofi", "ofi"} : kWays[0], 2);
    for (std::size_t i = 0; is_native && i < 2; ++i) {
      REQUIRE(team.members[i]->node().listen("127.0.0.1:0").ok());
      REQUIRE(team.members[i]->node().address(team.addresses[i]).ok());
    }
    Hostile hostile(is_native);
    team.addresses.push_back(hostile.address);
    Inbox inboxes[2];
    std::vector<std::unique_ptr<Group>> groups;
    for (int rank = 0; rank < 2; ++rank)
      groups.push_back(std::make_unique<Group>(
          *team.members[static_cast<std::size_t>(rank)],
          team.settings(1, rank, is_native ? "native" : "pipeline", is_native ? 0 : 1024),
          inboxes[rank].events()));
    // Whoever's address is less connects.
    for (int rank = 0; rank < 2; ++rank) {
      if (team.addresses[static_cast<std::size_t>(rank)] < hostile.address) continue;
      Peer peer;
      REQUIRE(hostile.node.connect(team.addresses[static_cast<std::size_t>(rank)], peer).ok());
      hostile.identify(peer);
    }
    const auto limit = std::chrono::steady_clock::now() + kDeadline;
    while (hostile.handle == 0 && std::chrono::steady_clock::now() < limit)
      hostile.node.wait_some(10);
    REQUIRE(hostile.handle != 0);
    const auto data = pattern(is_native ? 300'000 : 20'000, seed);
    const Status sent = groups[0]->send(data.data(), data.size());
    INFO(sent.text());
    REQUIRE(sent.ok());
    for (int i = 0; i < 60; ++i) {
      // A message that is right but for its numbers, or of any bytes.
      struct Any : Head {
        std::uint64_t words[6];
      } message{};
      message.kind = static_cast<Kind>(random() % 22);
      message.rank = random() % 4 == 0 ? static_cast<std::uint16_t>(random() % 4) : 2;
      message.group = 1;
      message.to = hostile.handle;
      for (std::uint64_t& word : message.words) word = random() % 3 == 0 ? random() : random() % 5;
      const std::size_t more = random() % 2 == 0 ? random() % 200 : 0;
      message.text_bytes = static_cast<std::uint32_t>(random() % 3 == 0 ? random() : more);
      for (const Peer& peer : hostile.peers) {
        if (peer.is_lost()) continue;
        hostile.send(peer, message, more);
        [[maybe_unused]] const Code code =
            hostile.node.send(peer, &message, 1 + random() % sizeof message);
      }
      hostile.node.progress();
    }
    for (auto& group : groups) {
      const Status status = group->close(20);
      CHECK_FALSE(status.ok());  // member 2 never has everything
      num_failed += status == Code::timed_out ? 0 : 1;
    }
    for (Inbox& inbox : inboxes)
      for (const auto& item : inbox.complete)
        if (item.size() == data.size()) CHECK(item == data);
  }
  CHECK(num_failed > 0);
}

namespace {

// The second of two members, which does what a test has it do: the first one is real.
class SecondMember {
 public:
  SecondMember()
      : node(std::make_unique<Node>(
            NodeSettings{.name = "second", .secret = "secret", .progress_thread = false})) {
    REQUIRE(node->address(address).ok());
    node->on_message([this](const Peer& peer, std::span<const std::byte> bytes) {
      Head head;
      std::span<const std::byte> rest;
      if (!read_message(bytes, head, rest)) return;
      if (head.kind == Kind::hello && read_message(bytes, hello, rest)) hello_by = peer;
      num_failed += head.kind == Kind::failed;
    });
    node->on_peer([this](const Peer& peer) { last = peer; });
  }
  Peer connect(const std::string& to) {
    Peer peer;
    REQUIRE(node->connect(to, peer).ok());
    std::vector<std::byte> text(address.size());
    std::memcpy(text.data(), address.data(), address.size());
    Head head{.kind = Kind::identify, .text_bytes = static_cast<std::uint32_t>(address.size())};
    say(peer, head, text);
    return peer;
  }
  template <class Message>
  void say(const Peer& peer, const Message& message, std::span<const std::byte> more = {}) {
    std::vector<std::byte> bytes(sizeof message + more.size());
    std::memcpy(bytes.data(), &message, sizeof message);
    std::copy(more.begin(), more.end(), bytes.begin() + sizeof message);
    Code code = Code::again;
    REQUIRE(until([&] {
      code = node->send(peer, bytes.data(), bytes.size());
      return code != Code::again;
    }));
    REQUIRE(code == Code::ok);
  }
  // As member 1 of the group that the last hello was of, or another of the same members.
  void greet(const Peer& peer, std::uint64_t group) {
    HelloMessage message = hello;
    message.rank = 1;
    message.group = group;
    message.to = 0;
    message.handle = 77;
    say(peer, message);
  }
  void join(const Peer& peer) {
    say(peer,
        JoinedMessage{
            {.kind = Kind::joined, .rank = 1, .group = hello.group, .to = hello.handle}, 0, 0});
  }
  void fail(const Peer& peer, std::uint64_t group) {
    FailedMessage message{};
    message.kind = Kind::failed;
    message.rank = 1;
    message.group = group;
    message.code = static_cast<std::uint32_t>(Code::cancelled);
    message.who = 1;
    say(peer, message);
  }
  template <class Done>
  bool until(Done&& done) {
    const auto limit = std::chrono::steady_clock::now() + kDeadline;
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      node->wait_some(1);
    }
    return true;
  }
  // Who has heard the hello of this group, by which connection.
  Peer hear_hello(std::uint64_t group) {
    REQUIRE(until([&] { return hello_by && hello.group == group; }));
    return std::exchange(hello_by, {});
  }

  std::unique_ptr<Node> node;
  std::string address;
  HelloMessage hello{};
  Peer hello_by, last;
  int num_failed = 0;
};

// A real member, the second one, and a connection that an earlier group of theirs has made.
struct Pair {
  Pair() : team(kWays[0], 1) {
    team.addresses.push_back(second.address);
    // Whoever's address is less connects.
    if (second.address < team.addresses[0]) second.connect(team.addresses[0]);
    begin(1);
    link = second.hear_hello(1);
    group.reset();
    REQUIRE(second.until([&] { return second.num_failed == 1; }));
  }
  void begin(std::uint64_t id) {
    group = std::make_unique<Group>(*team.members[0], team.settings(id, 0, "pipeline", 1024),
                                    inbox.events());
  }
  // Without a deadline of its own the member's ready() has that of the group.
  void require_ready() {
    const Status status = group->ready();
    INFO(status.text());
    REQUIRE(status.ok());
  }
  Team team;
  SecondMember second;
  Peer link;
  Inbox inbox;
  std::unique_ptr<Group> group;
};

}  // namespace

TEST_CASE("greetings of groups that nobody joins leave room for others") {
  constexpr std::uint64_t kMany = 100'001;
  for (const bool fails : {true, false}) {
    INFO((fails ? "whoever greets gives up" : "whoever greets says no more"));
    Pair pair;
    for (std::uint64_t id = 1000; id < 1000 + kMany; ++id) {
      pair.second.greet(pair.link, id);
      if (fails) pair.second.fail(pair.link, id);
    }
    pair.second.greet(pair.link, 2);
    // The answer, that this one has failed, tells that all before has come.
    pair.second.greet(pair.link, fails ? 1000 + kMany - 1 : 1);
    REQUIRE(pair.second.until([&] { return pair.second.num_failed == 2; }));
    pair.begin(2);
    pair.second.hear_hello(2);
    pair.second.join(pair.link);
    pair.require_ready();
  }
}

TEST_CASE("an old connection whose end one member has not noticed fails no new group") {
  Pair pair;
  SecondMember& second = pair.second;
  pair.begin(2);
  CHECK(second.hear_hello(2) == pair.link);
  SECTION("the other one connects anew") {
    const Peer anew = second.connect(pair.team.addresses[0]);
    CHECK(second.hear_hello(2) == anew);
    second.greet(anew, 2);
    second.join(anew);
    pair.require_ready();
  }
  SECTION("the end comes to light") {
    second.last = {};
    second.node->close(pair.link);
    Peer anew;
    if (pair.team.addresses[0] < second.address) {
      REQUIRE(second.until([&] { return static_cast<bool>(second.last); }));
      anew = second.last;
    } else {
      anew = second.connect(pair.team.addresses[0]);
    }
    CHECK(second.hear_hello(2) == anew);
    second.greet(anew, 2);
    second.join(anew);
    pair.require_ready();
  }
  SECTION("nobody comes") {
    second.node.reset();
    const Status status = pair.group->ready();
    CHECK(status == Code::peer_lost);
    CHECK(status.text().find("member 1") != std::string::npos);
  }
  SECTION("it had greeted before") {
    second.greet(pair.link, 2);
    second.greet(pair.link, 1);
    REQUIRE(second.until([&] { return second.num_failed == 2; }));
    second.node->close(pair.link);
    CHECK(pair.group->ready() == Code::peer_lost);
  }
}

TEST_CASE("many greetings of one group that nobody joins") {
  Pair pair;
  for (int i = 0; i < 100'000; ++i) pair.second.greet(pair.link, 3);
  pair.second.fail(pair.link, 3);
  pair.second.greet(pair.link, 3);  // answered: it has failed
  CHECK(pair.second.until([&] { return pair.second.num_failed == 2; }));
}

TEST_CASE("credit that cannot be right fails the group and names its member") {
  Pair pair;
  pair.begin(2);
  const Peer link = pair.second.hear_hello(2);
  pair.second.greet(link, 2);
  pair.second.join(link);
  pair.require_ready();
  const auto give = [&](std::uint64_t sequence, std::uint64_t count) {
    pair.second.say(
        link,
        CreditMessage{{.kind = Kind::credit, .rank = 1, .group = 2, .to = pair.second.hello.handle},
                      sequence,
                      count});
  };
  give(0, 1);
  give(0, 2);
  SECTION("two at once") { give(0, 4); }
  SECTION("one again") { give(0, 2); }
  SECTION("for more messages than there can be") {
    for (std::uint64_t sequence = 1; sequence < 200; ++sequence) give(sequence << 40, 1);
  }
  REQUIRE(pair.second.until([&] { return pair.second.num_failed == 2; }));
  const Status status = pair.group->close(30'000);
  CHECK(status == Code::corrupt);
  CHECK(status.text().find("member 1") != std::string::npos);
}

// In a group of three the third member gets the first block and is to pass it to the second one,
// which gives it credit once the root's second block is nearly there.
TEST_CASE("a member that ends between the credit for a block and the block is named") {
  constexpr std::size_t kBytes = 4 << 20;
  Team team(kWays[0], 2);
  auto dying = std::make_unique<Hostile>();
  team.addresses.push_back(dying->address);
  void* memory = nullptr;
  REQUIRE(dying->node.allocate(kBytes, memory).ok());
  Peer peers[2];
  std::uint64_t handles[2] = {};
  bool has_credit = false;
  const auto head = [&](Kind kind, int to) {
    return Head{.kind = kind, .rank = 2, .group = 1, .to = handles[to]};
  };
  dying->node.on_message([&](const Peer& peer, std::span<const std::byte> bytes) {
    Head got;
    HelloMessage hello;
    std::span<const std::byte> rest;
    if (!read_message(bytes, got, rest) || got.rank > 1) return;
    if (got.kind == Kind::hello && read_message(bytes, hello, rest)) {
      peers[hello.rank] = peer;
      handles[hello.rank] = hello.handle;
      const int by = hello.rank;
      hello.rank = 2;
      hello.handle = 77;
      dying->send(peer, hello);
      if (by == 1) dying->send(peer, JoinedMessage{head(Kind::joined, 1), 0, 0});
    }
    if (got.kind == Kind::announce)
      for (const int to : {0, 1}) {
        MemoryKey key;
        REQUIRE(dying->node.key(memory, kWrite, key).ok());
        dying->send(peers[to], ReadyMessage{head(Kind::ready, to), 0, kBytes, key});
      }
    has_credit |= got.kind == Kind::credit;
  });
  Inbox inboxes[2];
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < 2; ++rank)
    groups.push_back(std::make_unique<Group>(*team.members[static_cast<std::size_t>(rank)],
                                             team.settings(1, rank, "pipeline", 512 << 10),
                                             inboxes[rank].events()));
  for (int rank = 0; rank < 2; ++rank) {
    const std::string& address = team.addresses[static_cast<std::size_t>(rank)];
    if (address < dying->address) continue;
    Peer peer;
    REQUIRE(dying->node.connect(address, peer).ok());
    dying->identify(peer);
  }
  const auto data = pattern(kBytes, 1);
  REQUIRE(groups[0]->send(data.data(), data.size()).ok());
  const auto limit = std::chrono::steady_clock::now() + kDeadline;
  while (!has_credit && std::chrono::steady_clock::now() < limit) dying->node.wait_some(10);
  REQUIRE(has_credit);
  for (Peer& peer : peers) peer = {};
  dying.reset();
  for (auto& group : groups) {
    const Status status = group->close(30'000);
    INFO(status.text());
    CHECK(status == Code::peer_lost);
    CHECK(status.text().find("member 2") != std::string::npos);
  }
}

// Blocks find their group by its handle.
TEST_CASE("groups that several threads make at once have handles of their own") {
  constexpr std::size_t kThreads = 4, kEach = 2'000'000;
  mcast::MulticastImpl multicast({.name = "handles"});
  std::vector<std::vector<std::uint64_t>> taken(kThreads, std::vector<std::uint64_t>(kEach));
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : taken)
    threads.emplace_back([&multicast, &start, &mine] {
      start.arrive_and_wait();
      for (std::uint64_t& handle : mine) handle = multicast.next_handle();
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<std::uint64_t> all;
  for (const auto& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}
