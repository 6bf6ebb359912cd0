// A member that knows the secret and sends what it likes: the others go on or fail the group with
// its name, and nothing crashes, hangs or is written where it should not.
#include <algorithm>
#include <latch>
#include <optional>
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
              .fabrics = is_native ? "tcp" : "shm",
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
      send(peer, JoinedMessage{head(Kind::joined), {{{}, {1472, 100}}}});
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
    Team team(is_native ? Way{"tcp", "tcp"} : kWays[0], 2);
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
    say(peer, JoinedMessage{
                  {.kind = Kind::joined, .rank = 1, .group = hello.group, .to = hello.handle}, {}});
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
      if (by == 1) dying->send(peer, JoinedMessage{head(Kind::joined, 1), {}});
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

namespace {

// The second of three members of a native group, which passes on what it must: its parent is the
// root, its child the third member. It never has buffers, so the root sends no packets.
struct Between {
  static constexpr std::size_t kBytes = 300'000;

  Between() : liar(true) {
    for (const std::size_t i : {0, 1}) {
      REQUIRE(team.members[i]->node().listen("127.0.0.1:0").ok());
      REQUIRE(team.members[i]->node().address(team.addresses[i]).ok());
    }
    team.addresses.insert(team.addresses.begin() + 1, liar.address);
    liar.node.on_message([this](const Peer& peer, std::span<const std::byte> bytes) {
      Head head;
      std::span<const std::byte> rest;
      if (read_message(bytes, head, rest) && head.rank < 3) on_message(peer, head, bytes);
    });
    for (const int rank : {0, 2})
      groups.push_back(std::make_unique<Group>(*team.members[static_cast<std::size_t>(rank / 2)],
                                               team.settings(1, rank, "native", 0),
                                               inboxes[rank / 2].events()));
    for (const std::size_t rank : {0, 2}) {
      if (team.addresses[rank] < liar.address) continue;
      Peer peer;
      REQUIRE(liar.node.connect(team.addresses[rank], peer).ok());
      liar.identify(peer);
    }
    data = pattern(kBytes, 1);
    REQUIRE(groups[0]->send(data.data(), data.size()).ok());
    const auto limit = std::chrono::steady_clock::now() + kDeadline;
    while (!child_key && std::chrono::steady_clock::now() < limit) liar.node.wait_some(10);
    REQUIRE(child_key);
  }
  ~Between() {
    for (Peer& peer : peers) peer = {};
  }
  template <class Message>
  void say(int to, Message message, std::size_t more = 0) {
    message.rank = 1;
    message.group = 1;
    message.to = handles[to];
    liar.send(peers[to], message, more);
  }
  void on_message(const Peer& peer, const Head& head, std::span<const std::byte> bytes) {
    std::span<const std::byte> rest;
    const auto pass_on = [&]<class Message>(Message message) {
      if (read_message(bytes, message, rest)) say(2 - head.rank, message);
    };
    if (HelloMessage hello; head.kind == Kind::hello && read_message(bytes, hello, rest)) {
      peers[head.rank] = peer;
      handles[head.rank] = hello.handle;
      hello.rank = 1;
      hello.handle = 77;
      liar.send(peer, hello);
    }
    if (head.kind == Kind::joined) has_child_joined = read_message(bytes, joined, rest);
    if (has_child_joined && peers[0]) {
      has_child_joined = false;
      say(0, joined);
    }
    if (head.kind == Kind::go) pass_on(GoMessage{});
    if (head.kind == Kind::heard) pass_on(Head{});
    if (AnnounceMessage said; head.kind == Kind::announce && read_message(bytes, said, rest)) {
      packet_bytes = said.packet_bytes;
      num_packets = static_cast<std::uint32_t>((said.bytes + packet_bytes - 1) / packet_bytes);
      say(2, said);
    }
    if (ReadyMessage ready; head.kind == Kind::ready && read_message(bytes, ready, rest))
      child_key = ready.key;
    num_lacks += head.kind == Kind::lack;
  }
  // To the child, as if it had asked for them.
  void repair(std::uint32_t first, std::uint32_t run) {
    const std::size_t bytes = 1000;
    PeerMemory memory = liar.node.memory(peers[2], *child_key);
    Operation operation;
    liar.node.put_notify(memory, 0, data.data(), bytes,
                         to_tag({handles[2], 0, first | (run - 1) << (32 - kRunBits)}), operation);
    until([&] { return operation.is_done(); });
  }
  void lack(std::uint64_t sequence, std::uint32_t first, std::uint32_t text_bytes,
            std::size_t bytes, bool is_ready = true) {
    void* memory = nullptr;
    MemoryKey key;
    REQUIRE(liar.node.allocate(kBytes, memory).ok());
    REQUIRE(liar.node.key(memory, kWrite, key).ok());
    if (is_ready) say(0, ReadyMessage{{.kind = Kind::ready}, 0, kBytes, key});
    LackMessage message{{.kind = Kind::lack}, sequence, first, 0};
    message.text_bytes = text_bytes;
    say(0, message, bytes);
  }
  template <class Done>
  void until(Done&& done) {
    const auto limit = std::chrono::steady_clock::now() + kDeadline;
    while (!done() && std::chrono::steady_clock::now() < limit) liar.node.wait_some(1);
    REQUIRE(done());
  }

  Team team{Way{"tcp", "tcp"}, 2};
  Hostile liar;
  Inbox inboxes[2];
  std::vector<std::unique_ptr<Group>> groups;  // of members 0 and 2
  std::vector<std::byte> data;
  Peer peers[3];
  std::uint64_t handles[3] = {};
  JoinedMessage joined{};
  bool has_child_joined = false;
  std::uint32_t packet_bytes = 0, num_packets = 0;
  std::optional<MemoryKey> child_key;
  int num_lacks = 0;
};

struct Lie {
  const char* name;
  int to;  // the member that it is told
  void (*tell)(Between&);
};
CountMessage count_of(Kind kind, std::uint64_t count) { return {{.kind = kind}, count}; }
AnnounceMessage announcement(std::uint64_t bytes, std::uint32_t packet_bytes) {
  return {{.kind = Kind::announce}, 1, bytes, packet_bytes, 0};
}
ProgressMessage progress_of(std::uint64_t count) {
  return {{.kind = Kind::progress}, count, ~std::uint64_t{0}};
}

const Lie kLies[] = {
    {"progress beyond all messages", 0,
     [](Between& at) { at.say(0, progress_of(at.num_packets + 1)); }},
    {"progress that goes back", 0,
     [](Between& at) {
       at.say(0, progress_of(2));
       at.say(0, progress_of(1));
     }},
    {"mark to its parent", 0, [](Between& at) { at.say(0, count_of(Kind::mark, 1)); }},
    {"lack before it has a buffer", 0, [](Between& at) { at.lack(0, 0, 1, 1, false); }},
    {"lack of a message that is not here", 0, [](Between& at) { at.lack(1, 0, 1, 1); }},
    {"lack from beyond the end on", 0, [](Between& at) { at.lack(0, at.num_packets, 1, 1); }},
    {"lack with a bitmap of another length", 0, [](Between& at) { at.lack(0, 0, 2, 1); }},
    {"lack with a bitmap beyond the end", 0, [](Between& at) { at.lack(0, 0, 4096, 4096); }},
    {"mark beyond all messages", 2,
     [](Between& at) { at.say(2, count_of(Kind::mark, at.num_packets + 1)); }},
    {"packets that are longer than datagrams", 2,
     [](Between& at) { at.say(2, announcement(1'000'000, ~std::uint32_t{0})); }},
    {"more packets than have numbers", 2, [](Between& at) { at.say(2, announcement(1 << 24, 1)); }},
    {"packets of no bytes", 2, [](Between& at) { at.say(2, announcement(0, 1000)); }},
    {"able to its child", 2, [](Between& at) { at.say(2, count_of(Kind::able, 1)); }},
    {"lack to its child", 2,
     [](Between& at) {
       at.say(2, LackMessage{{.kind = Kind::lack}, 0, 0, 0});
     }},
    {"packets that nobody asked for", 2, [](Between& at) { at.repair(0, 1); }},
    {"packets beyond the end", 2, [](Between& at) { at.repair(at.num_packets - 1, 2); }},
    {"packets twice", 2,
     [](Between& at) {
       at.say(2, count_of(Kind::mark, at.num_packets));
       at.until([&] { return at.num_lacks > 0; });
       at.repair(0, 1);
       at.repair(0, 1);
     }},
};

}  // namespace

TEST_CASE("a member that lies about packets is named") {
  for (const Lie& lie : kLies) {
    INFO(lie.name);
    Between between;
    lie.tell(between);
    const auto place = static_cast<std::size_t>(lie.to / 2);
    REQUIRE(between.inboxes[place].wait_for_failure());
    const Status status = between.groups[place]->status();
    INFO(status.text());
    CHECK(status == Code::corrupt);
    CHECK_THAT(status.text(), Catch::Contains("member 1 ("));
  }
}

TEST_CASE("a member of an older version of groups is told so") {
  Pair pair;
  pair.second.hello.version = kWireVersion - 1;
  HelloMessage message = pair.second.hello;
  message.rank = 1;
  message.group = 2;
  message.to = 0;
  std::array<std::byte, 112> older;  // shorter, as its version has it
  std::memcpy(older.data(), &message, sizeof older);
  const bool is_early = GENERATE(true, false);
  if (!is_early) {
    pair.begin(2);
    pair.second.hear_hello(2);
  }
  pair.second.say(pair.link, older);
  if (is_early) {
    // The answer, that this group has failed, tells that all before has come.
    pair.second.greet(pair.link, 1);
    REQUIRE(pair.second.until([&] { return pair.second.num_failed == 2; }));
    pair.begin(2);
  }
  const Status status = pair.group->ready();
  CHECK(status == Code::bad_argument);
  CHECK_THAT(status.text(),
             Catch::Contains("member 1 (") && Catch::Contains("speaks version 1, this member 2"));
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
