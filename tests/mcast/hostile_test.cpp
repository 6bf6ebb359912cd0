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
  Hostile()
      : node({.name = "hostile", .secret = "secret", .fabrics = "shm", .progress_thread = false}) {
    REQUIRE(node.address(address).ok());
    node.on_peer([this](const Peer& peer) { peers.push_back(peer); });
    node.on_message([this](const Peer& peer, std::span<const std::byte> bytes) {
      HelloMessage hello;
      std::span<const std::byte> rest;
      if (!read_message(bytes, hello, rest) || hello.kind != Kind::hello) return;
      handle = hello.handle;
      hello.rank = 2;
      hello.handle = 77;
      send(peer, hello);
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
  int num_failed = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Team team(kWays[0], 2);
    Hostile hostile;
    team.addresses.push_back(hostile.address);
    Inbox inboxes[2];
    std::vector<std::unique_ptr<Group>> groups;
    for (int rank = 0; rank < 2; ++rank)
      groups.push_back(std::make_unique<Group>(*team.members[static_cast<std::size_t>(rank)],
                                               team.settings(1, rank, "pipeline", 1024),
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
    const auto data = pattern(20'000, seed);
    const Status sent = groups[0]->send(data.data(), data.size());
    INFO(sent.text());
    REQUIRE(sent.ok());
    for (int i = 0; i < 60; ++i) {
      // A message that is right but for its numbers, or of any bytes.
      struct Any : Head {
        std::uint64_t words[6];
      } message{};
      message.kind = static_cast<Kind>(random() % 16);
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
