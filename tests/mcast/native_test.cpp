// Groups whose long messages the network copies: over IP multicast on the loopback, whose datagrams
// the test loses, doubles, holds back and makes up. Contents never depend on them.
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "mcast/group/wire.hpp"
#include "multicast/channel.hpp"
#include "multicast/packet_set.hpp"
#include "multicast/window.hpp"
#include "peer/address.hpp"
#include "team.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

// What happens to datagrams on their way; 0 to 1.
struct Wire {
  double loses = 0, doubles = 0, holds_back = 0, lies = 0;
  bool loses_probes = false, loses_last = false;
  // The queue of the root's interface takes nothing: it has taken so many datagrams.
  int num_taken = -1;             // -1: takes all
  double refuses = 0;             // and has sent them to members of this host nevertheless
  std::uint64_t num_foreign = 0;  // somebody else's, whenever a socket is looked at
};

std::mutex wire_lock;
Wire wire;
std::mt19937_64 wire_random(1);
using Queue = std::deque<std::vector<std::byte>>;
struct Held {
  Queue come, late;
};
std::map<int, Held> held;  // by socket
std::atomic<std::uint64_t> num_datagrams{0};

void set_wire(const Wire& value) {
  std::lock_guard guard(wire_lock);
  wire = value;
  held.clear();
  num_datagrams.store(0);
}
bool happens(double probability) {
  return std::uniform_real_distribution<double>(0, 1)(wire_random) < probability;
}

void pass(std::span<const std::byte> datagram, Queue& come, Queue& late) {
  std::vector<std::byte> bytes(datagram.begin(), datagram.end());
  mcast::PacketHead head{};
  std::span<const std::byte> rest;
  if (mcast::read_message(bytes, head, rest)) {
    if (head.packet == mcast::kProbe
            ? wire.loses_probes
            : happens(wire.loses) || (wire.loses_last && happens(0.5) && rest.size() < 8000))
      return;
  }
  num_datagrams.fetch_add(1);
  if (happens(wire.holds_back)) return late.push_back(std::move(bytes));
  if (happens(wire.doubles)) come.push_back(bytes);
  if (happens(wire.lies)) {
    // Anybody's datagram: another token, or a few bytes; or no packet that can be right.
    std::vector<std::byte> lie = bytes;
    switch (wire_random() % 4) {
      case 0:
        lie[static_cast<std::size_t>(wire_random() % 8)] ^= std::byte{1};
        break;
      case 1:
        lie.resize(static_cast<std::size_t>(wire_random() % (lie.size() + 1)) / 2);
        break;
      case 2:
        head.sequence = static_cast<std::uint16_t>(head.sequence + 100 + wire_random() % 60'000);
        head.window = 0;
        std::memcpy(lie.data(), &head, sizeof head);
        break;
      default:
        head.packet += 1'000'000;
        std::memcpy(lie.data(), &head, sizeof head);
    }
    come.push_back(std::move(lie));
  }
  come.push_back(std::move(bytes));
}

}  // namespace

// What the sockets of this process receive: each datagram by itself.
extern "C" int recvmmsg(int socket, mmsghdr* messages, unsigned count, int flags, timespec* limit) {
  std::lock_guard guard(wire_lock);
  auto& [come, late] = held[socket];
  if (come.empty()) {
    const auto result =
        static_cast<int>(::syscall(SYS_recvmmsg, socket, messages, count, flags, limit));
    if (result <= 0 && late.empty() && wire.num_foreign == 0) return result;
    for (int i = 0; i < result; ++i) {
      msghdr& message = messages[i].msg_hdr;
      std::size_t length = messages[i].msg_len;
      for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
           item = CMSG_NXTHDR(&message, item))
        if (item->cmsg_type == UDP_GRO) length = *reinterpret_cast<const int*>(CMSG_DATA(item));
      const auto* from = static_cast<const std::byte*>(message.msg_iov->iov_base);
      for (std::size_t at = 0; at < messages[i].msg_len; at += length)
        pass({from + at, std::min(length, messages[i].msg_len - at)}, come, late);
    }
    // Held-back ones come when all others are through.
    if (result <= 0 && happens(0.2)) come.swap(late);
  }
  for (std::uint64_t i = 0; come.empty() && i < wire.num_foreign; ++i)
    come.emplace_back(wire_random() % 2000);
  int num_here = 0;
  for (; !come.empty() && num_here < static_cast<int>(count); ++num_here, come.pop_front()) {
    std::ranges::copy(come.front(),
                      static_cast<std::byte*>(messages[num_here].msg_hdr.msg_iov->iov_base));
    messages[num_here].msg_len = static_cast<unsigned>(come.front().size());
    messages[num_here].msg_hdr.msg_controllen = 0;
  }
  if (num_here > 0) return num_here;
  errno = EAGAIN;
  return -1;
}

// What they send.
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  int type = 0;
  socklen_t length = sizeof type;
  const bool is_datagram =
      ::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM;
  bool is_refused = false;
  if (is_datagram && message->msg_iovlen > 1 && message->msg_iov[1].iov_len > 0) {
    std::lock_guard guard(wire_lock);
    if (wire.num_taken == 0) {
      errno = ENOBUFS;
      return -1;
    }
    if (wire.num_taken > 0) --wire.num_taken;
    is_refused = happens(wire.refuses);
  }
  const ssize_t result = ::syscall(SYS_sendmsg, socket, message, flags);
  if (!is_refused) return result;
  errno = ENOBUFS;
  return -1;
}

namespace {

const Way kTcp{"tcp", "tcp"};

// A team whose Nodes listen on the loopback.
struct NativeTeam : Team {
  explicit NativeTeam(int size) : Team(kTcp, size) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      REQUIRE(members[i]->node().listen("127.0.0.1:0").ok());
      REQUIRE(members[i]->node().address(addresses[i]).ok());
    }
  }
};

void require_messages(TeamGroup& group, const std::vector<std::vector<std::byte>>& messages) {
  for (const auto& data : messages) REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
  group.require_closed();
  for (std::size_t rank = 1; rank < group.inboxes.size(); ++rank) {
    const Inbox& inbox = group.inboxes[rank];
    REQUIRE(inbox.complete.size() == messages.size());
    for (std::size_t i = 0; i < messages.size(); ++i) {
      INFO("member " << rank << ", message " << i);
      CHECK((inbox.complete[i] == messages[i]));
    }
  }
}

// Small ones, long ones, and those of few packets.
std::vector<std::vector<std::byte>> some_messages() {
  std::vector<std::vector<std::byte>> messages;
  std::uint64_t seed = 1;
  for (const std::size_t bytes :
       {3'000'001ul, 0ul, 1ul, 262'144ul, 100'000ul, 262'143ul, 5ul, 1'000'000ul})
    messages.push_back(pattern(bytes, seed++));
  return messages;
}

}  // namespace

TEST_CASE("the network copies long messages") {
  for (const int size : {3, 4, 5, 7, 9}) {
    INFO(size << " members");
    set_wire({});
    NativeTeam team(size);
    TeamGroup group(team, 1, "native", 0);
    group.require_ready();
    require_messages(group, some_messages());
    const Status native = group.groups[0]->native();
    INFO(native.text());
    CHECK(native.ok());
    CHECK(num_datagrams.load() > 0);
  }
}

TEST_CASE("racks of native groups") {
  for (const std::vector<int>& racks : {std::vector<int>{7, 7, 3, 3, 3, 1, 7},
                                        {0, 1, 2, 3, 4, 5, 6},
                                        {0, 1, 1, 1, 1, 1, 1},
                                        {4, 4, 4, 4, 4, 4, 4}}) {
    set_wire({.loses = 0.05});
    NativeTeam team(7);
    TeamGroup group(team, 13, "native", 0,
                    [&](GroupSettings& settings) { settings.racks = racks; });
    group.require_ready();
    require_messages(group, some_messages());
    CHECK(group.groups[0]->native().ok());
  }
  set_wire({});
}

TEST_CASE("contents do not depend on datagrams") {
  const Wire wires[] = {{.loses = 0.01},
                        {.loses = 0.2, .holds_back = 0.1},
                        {.doubles = 0.5, .holds_back = 0.2},
                        {.loses = 0.05, .doubles = 0.1, .holds_back = 0.1, .lies = 0.3},
                        {.loses_last = true},
                        {.loses = 0.6},
                        {.loses = 1}};
  for (const Wire& given : wires) {
    INFO("loses " << given.loses << ", doubles " << given.doubles << ", holds back "
                  << given.holds_back << ", lies " << given.lies);
    set_wire(given);
    NativeTeam team(6);
    TeamGroup group(team, 2, "native", 0,
                    [](GroupSettings& settings) { settings.delivery_all = settings.id == 2; });
    group.require_ready();
    require_messages(group, some_messages());
    if (given.loses == 1) {
      const Status native = group.groups[0]->native();
      CHECK(native == Code::unsupported);
      CHECK_THAT(native.text(), Catch::Contains("drops most packets"));
    }
  }
  set_wire({});
}

TEST_CASE("posted buffers of messages that the network copies") {
  set_wire({.loses = 0.1});
  NativeTeam team(4);
  TeamGroup group(team, 3, "native", 0);
  group.require_ready();
  const std::size_t bytes = 700'000;
  std::vector<void*> memories;
  for (std::size_t rank = 1; rank < 4; ++rank)
    for (int i = 0; i < 3; ++i) {
      memories.push_back(nullptr);
      REQUIRE(team.members[rank]->node().allocate(bytes, memories.back()).ok());
      REQUIRE(group.groups[rank]->post(memories.back(), bytes).ok());
    }
  std::vector<std::vector<std::byte>> messages;
  for (std::uint64_t seed = 0; seed < 5; ++seed) messages.push_back(pattern(bytes, seed));
  require_messages(group, messages);
  for (std::size_t rank = 1; rank < 4; ++rank) CHECK(group.inboxes[rank].num_incoming == 2);
  set_wire({});
}

TEST_CASE("a network that brings no datagrams leaves a group to the pipeline") {
  set_wire({.loses_probes = true});
  NativeTeam team(3);
  TeamGroup group(team, 4, "native", 0);
  group.require_ready();
  require_messages(group, some_messages());
  const Status native = group.groups[0]->native();
  CHECK(native == Code::unsupported);
  CHECK_THAT(native.text(), Catch::Contains("heard no datagram within"));
  set_wire({});
}

TEST_CASE("members without a network leave a group to the pipeline, and are named") {
  set_wire({});
  Team team(kWays[0], 3);  // Nodes that listen nowhere
  TeamGroup group(team, 5, "native", 0);
  group.require_ready();
  require_messages(group, some_messages());
  const Status native = group.groups[0]->native();
  CHECK(native == Code::unsupported);
  CHECK_THAT(native.text(), Catch::Contains("member ") && Catch::Contains("does not listen"));
  TeamGroup pipeline(team, 6, "pipeline", 0);
  pipeline.require_ready();
  CHECK(pipeline.groups[0]->native() == Code::bad_argument);
  pipeline.require_closed();
}

TEST_CASE("an interface whose queue is full leaves a group to the pipeline") {
  for (const int num_taken : {0, 2}) {
    INFO("takes " << num_taken);
    set_wire({.num_taken = num_taken});
    NativeTeam team(4);
    TeamGroup group(team, 12, "native", 0);
    group.require_ready();
    require_messages(group, some_messages());
    const Status native = group.groups[0]->native();
    CHECK(native == Code::unsupported);
    CHECK_THAT(native.text(), Catch::Contains("queue"));
  }
  set_wire({});
}

// The loopback copy of a datagram is there before the interface drops it.
TEST_CASE("datagrams that an interface refuses, and members of its host get, are no lies") {
  set_wire({.loses = 0.05, .refuses = 0.7});
  NativeTeam team(5);
  TeamGroup group(team, 13, "native", 0);
  group.require_ready();
  require_messages(group, some_messages());
  CHECK(group.groups[0]->native().ok());
  set_wire({});
}

TEST_CASE("somebody else's datagrams that never end hold up nobody") {
  set_wire({.loses_last = true, .num_foreign = 1});
  NativeTeam team(3);
  TeamGroup group(team, 14, "native", 0);
  group.require_ready();
  require_messages(group, some_messages());
  set_wire({});
}

TEST_CASE("a receiver that gives its buffers late") {
  set_wire({.loses = 0.02});
  NativeTeam team(4);
  Inbox inboxes[4];
  std::vector<std::unique_ptr<Group>> groups;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    GroupEvents events = inboxes[rank].events();
    if (rank == 1)
      events.on_incoming = [now = events.on_incoming](std::uint64_t bytes) {
        std::this_thread::sleep_for(std::chrono::milliseconds(bytes > 0 ? 100 : 0));
        return now(bytes);
      };
    groups.push_back(std::make_unique<Group>(
        *team.members[rank], team.settings(19, static_cast<int>(rank), "native", 0), events));
  }
  const auto messages = some_messages();
  for (const auto& data : messages) REQUIRE(groups[0]->send(data.data(), data.size()).ok());
  // Those that have all wait for the one that has not.
  for (auto& group : groups) REQUIRE(group->close(30'000).ok());
  for (std::size_t rank = 1; rank < 4; ++rank) CHECK(inboxes[rank].complete == messages);
  set_wire({});
}

TEST_CASE("several native groups of the same members and address") {
  set_wire({.loses = 0.02});
  NativeTeam team(4);
  const auto change = [](GroupSettings& all) { all.multicast_address = "239.255.7.9:50124"; };
  TeamGroup one(team, 15, "native", 0, change), other(team, 16, "native", 0, change),
      idle(team, 17, "native", 0, change);
  const auto messages = some_messages();
  for (TeamGroup* group : {&one, &other, &idle}) group->require_ready();
  for (const auto& data : messages) REQUIRE(other.groups[0]->send(data.data(), data.size()).ok());
  require_messages(one, messages);
  require_messages(idle, messages);
  other.require_closed();
  for (std::size_t rank = 1; rank < 4; ++rank) CHECK(other.inboxes[rank].complete == messages);
  set_wire({});
}

// From 17 on small messages take the tree, too.
TEST_CASE("larger groups, with messages of all kinds") {
  for (const int size : {8, 13, 17}) {
    INFO(size << " members");
    set_wire({.loses = 0.03, .holds_back = 0.02});
    NativeTeam team(size);
    TeamGroup group(team, 18, "native", 0,
                    [&](GroupSettings& all) { all.delivery_all = size == 13; });
    group.require_ready();
    require_messages(group, some_messages());
    CHECK(group.groups[0]->native().ok());
  }
  set_wire({});
}

TEST_CASE("a member that leaves in the middle of a copied message is named") {
  set_wire({.loses = 0.05});
  for (const std::size_t leaver : {std::size_t{1}, std::size_t{4}}) {
    NativeTeam team(5);
    TeamGroup group(team, 7, "native", 0);
    group.require_ready();
    const auto data = pattern(50'000'000, 1);
    REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
    const auto limit = std::chrono::steady_clock::now() + kDeadline;
    while (num_datagrams.load() < 1000 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    group.groups[leaver].reset();
    for (std::size_t rank = 0; rank < 5; ++rank) {
      if (rank == leaver) continue;
      const Status status = group.groups[rank]->close(30'000);
      INFO(status.text());
      CHECK(status == Code::cancelled);
      CHECK_THAT(status.text(), Catch::Contains("member " + std::to_string(leaver)));
    }
  }
  set_wire({});
}

TEST_CASE("multicast addresses of groups") {
  set_wire({});
  NativeTeam team(3);
  for (const char* text : {"10.0.0.1", "239.1.2", "239.1.2.3:0", "239.1.2.3:70000", "[ff15::1", "x",
                           "[fe80::1]:5000", "239.1.2.3:5x"}) {
    INFO(text);
    GroupSettings settings = team.settings(8, 0, "native", 0);
    settings.multicast_address = text;
    CHECK_THROWS_WITH(Group(*team.members[0], settings, {}), Catch::Contains(text));
  }
  GroupSettings settings = team.settings(8, 0, "chain", 0);
  settings.multicast_address = "239.1.2.3";
  CHECK_THROWS_WITH(Group(*team.members[0], settings, {}), Catch::Contains("chain"));
  {
    TeamGroup group(team, 9, "native", 0,
                    [](GroupSettings& all) { all.multicast_address = "239.255.7.7:50123"; });
    group.require_ready();
    require_messages(group, some_messages());
    CHECK(group.groups[0]->native().ok());
  }
  // An address of the other family: the pipeline, with the reason.
  TeamGroup group(team, 10, "native", 0,
                  [](GroupSettings& all) { all.multicast_address = "ff18::7"; });
  group.require_ready();
  require_messages(group, some_messages());
  CHECK(group.groups[0]->native() == Code::unsupported);
  // Members that differ.
  TeamGroup differs(team, 11, "native", 0, [](GroupSettings& all) {
    all.multicast_address = all.self == 2 ? "239.255.7.8" : "239.255.7.7";
  });
  const Status status = differs.groups[0]->ready();
  CHECK(status == Code::bad_argument);
  CHECK_THAT(status.text(), Catch::Contains("multicast address"));
}

TEST_CASE("multicast addresses of every scope are joined") {
  const std::uint8_t seed[16] = {};
  for (const char* text : {"", "ff12::77", "ff18::77", "224.0.1.77", "239.1.2.3"}) {
    INFO(text);
    const bool is_v6 = text[0] == 'f';
    mcast::ChannelAddress address;
    REQUIRE(peer::resolve(is_v6 ? "[::1]:1" : "127.0.0.1:1", address.local).ok());
    REQUIRE(mcast::multicast_address(text, address.local, seed, address.group).ok());
    std::unique_ptr<mcast::Channel> channel;
    const Status status = mcast::open_udp_channel(address, false, channel);
    INFO(status.text());
    // A host without IPv6 has no such interface.
    CHECK((status.ok() || (is_v6 && status.text().find("no interface") != std::string::npos)));
  }
}

TEST_CASE("multicast addresses that no router passes on are refused") {
  const std::uint8_t seed[16] = {};
  const auto of = [&](const char* text) {
    peer::SocketAddress local, group;
    REQUIRE(peer::resolve(text[0] == 'f' ? "[::1]:1" : "127.0.0.1:1", local).ok());
    return mcast::multicast_address(text, local, seed, group);
  };
  for (const char* text : {"224.0.0.0", "224.0.0.1", "224.0.0.255:5000", "ff02::77",
                           "[ff02::1]:5000", "ff01::77", "ff11::77", "ff00::77", "ff10::77"}) {
    const Status status = of(text);
    INFO(text << ": " << status.text());
    CHECK(status == Code::bad_argument);
    CHECK_THAT(status.text(), Catch::Contains(text) && Catch::Contains("239.192.0.0/14") &&
                                  Catch::Contains("ff18::/16"));
  }
  for (const char* text : {"224.0.1.0", "225.0.0.1", "239.255.255.255", "ff05::77", "ff12::77"}) {
    INFO(text);
    CHECK(of(text).ok());
  }
}

TEST_CASE("sets of packets") {
  using mcast::PacketSet;
  PacketSet one(200), other(200);
  for (const std::uint32_t packet : {0u, 63u, 64u, 199u}) one.add(packet);
  one.add(63);
  other.add(64);
  CHECK(one.count() == 4);
  CHECK(one.next(1) == 63);
  CHECK(one.next(1, &other) == 64);
  CHECK(one.next(65, &other) == 200);
  one.remove(64);
  one.remove(64);
  CHECK(one.count() == 3);
  CHECK(one.next(64) == 199);
}

TEST_CASE("the window grows without losses and halves with many") {
  mcast::Window window(1000);
  for (int i = 0; i < 100; ++i) CHECK_FALSE(window.on_progress(window.size(), 0));
  CHECK(window.size() == 1000);
  for (int i = 0; i < 100; ++i) CHECK_FALSE(window.on_progress(window.size(), window.size() / 20));
  CHECK(window.size() == 1000);
  CHECK_FALSE(window.on_progress(1000, 200));
  CHECK(window.size() == 500);
  CHECK_FALSE(window.on_progress(500, 400));
  CHECK(window.on_progress(250, 200));
  for (int i = 0; i < 100; ++i) window.on_progress(window.size(), window.size());
  CHECK(window.size() == mcast::Window::kLeast);
}
