// Connections over verbs: how many there are, what they and their lanes cost in memory, and what
// the device itself refuses; skipped without a device (tests/softroce/run has one). The numbers
// printed are those of docs/performance.md.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fabric/failing_device.hpp"
#include "tests/fabric/verbs_ranks.hpp"

namespace {

using namespace weft;

constexpr int kLanes = 64;
constexpr int kPeers = 8;

// Pages that the device holds, in KiB.
long pinned_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmPin:")) return std::stol(line.substr(6));
  return -1;
}

// Queues that are shared with the device, in KiB.
long queues_kib() {
  std::ifstream maps("/proc/self/maps");
  long bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/dev/infiniband/uverbs") == std::string::npos) continue;
    std::istringstream range(line);
    unsigned long begin = 0, end = 0;
    char dash = 0;
    range >> std::hex >> begin >> dash >> end;
    bytes += static_cast<long>(end - begin);
  }
  return bytes / 1024;
}

// Reliable queue pairs of this machine. The kernel names the thread that made one, if that still
// is, not the process.
int queue_pairs() {
  FILE* list = popen("rdma resource show qp", "r");
  if (list == nullptr) return -1;
  int count = 0;
  char line[1024];
  while (fgets(line, sizeof line, list) != nullptr)
    if (std::strstr(line, " type RC ") != nullptr) ++count;
  return pclose(list) == 0 ? count : -1;
}

struct Pair {
  std::vector<Rank> ranks;
  Fabric& writer;
  Fabric& reader;
};

// Two ranks, of which the first has a lane to the second.
Pair open_pair() {
  std::vector<Rank> ranks = open_ranks(2);
  open_lane(ranks, 1, 0);
  Fabric &writer = *ranks[0].fabrics->to(1), &reader = *ranks[1].fabrics->to(0);
  return {std::move(ranks), writer, reader};
}

}  // namespace

TEST_CASE("taken up from both ends at once it is one connection", "[verbs]") {
  if (!has_device()) return;
  const int before = queue_pairs();
  for (int round = 0; round < 10; ++round) {
    std::vector<Rank> ranks = open_ranks(2);
    Status opened[2];
    std::atomic<int> num_done{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&, i] {
        Fabric& fabric = *ranks[static_cast<std::size_t>(i)].fabrics->to(1 - i);
        SendMemory memory;
        (void)wait_for([&] {
          fabric.poll();
          opened[i] = fabric.connect(1 - i, 0, memory);
          return opened[i].code() != Code::again;
        });
        num_done.fetch_add(1);
        (void)wait_for([&] {
          fabric.poll();
          return num_done.load() == 2;
        });
      });
    for (std::thread& thread : threads) thread.join();
    INFO(opened[0].text() << "; " << opened[1].text());
    CHECK((opened[0].ok() && opened[1].ok()));
    CHECK(queue_pairs() == before + 2);  // its two ends
  }
}

TEST_CASE("who answers need not hear that its answer has arrived", "[verbs]") {
  if (!has_device()) return;
  std::vector<Rank> ranks = open_ranks(2);
  Fabric& asker = *ranks[0].fabrics->to(1);
  Fabric& other = *ranks[1].fabrics->to(0);
  failing_device.confirmed = 0;
  failing_device.confirmations_lost = true;
  // It has nothing to send.
  CHECK(asker.state(1) == PeerState::alive);
  REQUIRE(wait_for([&] {
    asker.poll();
    other.poll();
    return failing_device.confirmed == 1;
  }));
  failing_device.confirmations_lost = false;
  SendMemory memory;
  Status status;
  CHECK(wait_for([&] {
    asker.poll();
    other.poll();
    status = other.connect(0, 0, memory);
    return status.code() != Code::again;
  }));
  INFO(status.text());
  CHECK(status.ok());
  CHECK(failing_device.confirmed == 1);
}

TEST_CASE("an idle lane costs a page at each end", "[verbs]") {
  if (!has_device()) return;
  std::vector<Rank> ranks = open_ranks(2);
  open_lane(ranks, 1, 0);
  const long before = pinned_kib();
  for (int i = 1; i <= kLanes; ++i) {
    Channel channel{1, static_cast<std::uint8_t>(i), 0};
    open_lane(ranks, 1, channel_number(channel));
  }
  const long both_ends = (pinned_kib() - before) / kLanes;
  printf("an idle lane: %ld KiB, both ends\n", both_ends);
  CHECK(before > 0);
  CHECK(both_ends <= 8);
  for (Rank& rank : ranks) rank.fabrics->remote()[0]->close_client(1);
  CHECK(wait_for([&] {
    for (Rank& rank : ranks) rank.fabrics->remote()[0]->poll();
    return pinned_kib() <= before + 8;
  }));
}

TEST_CASE("what is on its way into a ring that its reader has closed harms nobody", "[verbs]") {
  if (!has_device()) return;
  auto [ranks, writer, reader] = open_pair();
  const long before = pinned_kib();
  const int channel = channel_number({1, 0, 0});
  const OpenLane lane = open_lane(ranks, 1, channel);
  reader.close_client(1);
  CHECK(writer.post(lane.send.lane, 0, 64) == Code::ok);
  writer.close_client(1);
  CHECK(wait_for([&] {
    writer.poll();
    reader.poll();
    return pinned_kib() <= before;
  }));
  CHECK(writer.state(1) == PeerState::alive);
  CHECK(reader.state(0) == PeerState::alive);
  // The ring's number and channel are free again.
  const OpenLane again = open_lane(ranks, 1, channel);
  again.send.ring[0] = std::byte{7};
  REQUIRE(writer.post(again.send.lane, 0, 64) == Code::ok);
  CHECK(wait_for([&] {
    reader.poll();
    return again.receive.arrived->load() == 64;
  }));
  CHECK(again.receive.ring[0] == std::byte{7});
}

TEST_CASE("a ring that is closed before it is answered leaves nothing behind", "[verbs]") {
  if (!has_device()) return;
  auto [ranks, writer, reader] = open_pair();
  const long before = pinned_kib();
  const std::uint32_t num_lanes = reader.connections().load();
  SendMemory memory;
  REQUIRE(writer.connect(1, channel_number({1, 0, 0}), memory).code() == Code::again);
  reader.close_client(1);
  writer.close_client(1);
  CHECK(wait_for([&] {
    writer.poll();
    reader.poll();
    return reader.connections().load() != num_lanes && pinned_kib() <= before;
  }));
  CHECK(writer.state(1) == PeerState::alive);
}

TEST_CASE("of the engine's channels one takes what memory it needs", "[verbs]") {
  if (!has_device()) return;
  Settings settings = verbs_settings();
  REQUIRE(settings.set("LANE_MEMORY_BYTES", "4096").ok());
  std::vector<Rank> ranks = open_ranks(2, settings);
  open_lane(ranks, 1, 0);
  SendMemory memory;
  CHECK(ranks[0].fabrics->to(1)->connect(1, channel_number({0, 1, 0}), memory).code() ==
        Code::no_memory);
}

TEST_CASE("a connection's queues are small", "[verbs]") {
  if (!has_device()) return;
  std::vector<Rank> ranks = open_ranks(1 + kPeers);
  open_lane(ranks, 1, 0);
  const long pinned = pinned_kib(), queues = queues_kib();
  std::vector<OpenLane> lanes;
  for (int peer = 2; peer <= kPeers; ++peer) lanes.push_back(open_lane(ranks, peer, 0));
  constexpr int kNum = kPeers - 1;
  const double idle = static_cast<double>(pinned_kib() - pinned) / kNum;
  const double queues_each = static_cast<double>(queues_kib() - queues) / kNum / 2;  // two ends
  // As large as rings are without load (WEFT_RING_MIN_BYTES).
  constexpr std::size_t kRing = 64 * 1024, kPiece = 2048;
  for (int peer = 2; peer <= kPeers; ++peer)
    for (std::size_t at = 0; at < kRing; at += kPiece)
      REQUIRE(post(*ranks[0].fabrics->to(peer),
                   *ranks[static_cast<std::size_t>(peer)].fabrics->to(0),
                   lanes[static_cast<std::size_t>(peer - 2)], at, kPiece) == Code::ok);
  // What both ends of a lane have is what one process has of the two lanes with a peer.
  const double used = static_cast<double>(pinned_kib() - pinned) / kNum;
  printf("with a peer, KiB: rings %.1f, %.1f once used, queues %.1f; ", idle, used, queues_each);
  printf("1000 busy peers: %.0f MiB\n", (used + queues_each) * 1000 / 1024);
  CHECK(used >= 2 * kRing / 1024);
  CHECK((used + queues_each) * 1000 < 1024 * 1024);
}

TEST_CASE("the owner's device refuses what its owner does not share", "[verbs]") {
  if (!has_device()) return;
  // A get and a put after unshare(); a put into what is shared for one get, and has been kept
  // since.
  const int what = GENERATE(0, 1, 2);
  std::vector<Rank> ranks = open_ranks(3);
  Fabric& asker = *ranks[0].fabrics->to(1);
  Fabric& owner = *ranks[1].fabrics->to(0);
  open_lane(ranks, 1, 0);
  open_lane(ranks, 2, 0);
  std::vector<char> bytes(8192, 's'), own(bytes.size(), 'o');
  RemoteMemory shared{}, once{}, named{};
  REQUIRE(owner.share(bytes.data(), bytes.size(), shared).ok());
  REQUIRE(owner.share_once(bytes.data(), bytes.size(), once).ok());
  // Named as if it were shared once, it is not asked about: what refuses is the device.
  named = shared;
  named.region = once.region;
  REQUIRE(asker.put(1, named, 0, own.data(), own.size()) == Code::ok);
  REQUIRE(bytes[0] == 'o');
  std::fill(bytes.begin(), bytes.end(), 's');
  REQUIRE(asker.get(1, once, 0, own.data(), own.size()) == Code::ok);
  REQUIRE(own[0] == 's');

  std::fill(own.begin(), own.end(), 'o');
  REQUIRE(owner.unshare(shared).ok());
  REQUIRE(owner.unshare(once).ok());
  if (what == 2) named.extra = once.extra;
  // Another thread polls, the watcher's: who sees the end finds the peer dead at once.
  Completion end;
  if (what == 0)
    asker.start_get(1, named, 0, own.data(), own.size(), end);
  else
    asker.start_put(1, named, 0, own.data(), own.size(), end);
  REQUIRE(wait_for([&] { return end.is_done(); }));
  CHECK(asker.state(1) == PeerState::dead);
  CHECK(end.code() == Code::peer_lost);
  CHECK(std::count(own.begin(), own.end(), 'o') == 8192);
  CHECK(std::count(bytes.begin(), bytes.end(), 's') == 8192);
  // Both ends are told.
  CHECK(wait_for([&] {
    asker.poll();
    owner.poll();
    return owner.state(0) == PeerState::dead;
  }));
  // Others go on.
  Fabric& other = *ranks[2].fabrics->to(0);
  REQUIRE(other.share(bytes.data(), bytes.size(), shared).ok());
  CHECK(asker.get(2, shared, 0, own.data(), own.size()) == Code::ok);
  CHECK(own[0] == 's');
  CHECK(asker.state(2) == PeerState::alive);
}

TEST_CASE("requests that the device does not take go out all the same, or the peer is lost",
          "[verbs]") {
  if (!has_device()) return;
  constexpr std::size_t kFirst = 2560, kBytes = kFirst + 4096;  // the second post is two requests
  const bool at_last = GENERATE(true, false);
  std::vector<Rank> ranks = open_ranks(2);
  Fabric& writer = *ranks[0].fabrics->to(1);
  Fabric& reader = *ranks[1].fabrics->to(0);
  const OpenLane lane = open_lane(ranks, 1, 0);
  for (std::size_t i = 0; i < kBytes; ++i) lane.send.ring[i] = static_cast<std::byte>(i / 64 + 1);
  REQUIRE(post(writer, reader, lane, 0, kFirst) == Code::ok);
  // It asks for more of the ring first, and that is answered before this has arrived.
  REQUIRE(wait_for([&] {
    writer.poll();
    reader.poll();
    return lane.receive.arrived->load() == kFirst;
  }));
  failing_device.taken = 1;
  failing_device.refused = at_last ? 1 : 1'000'000;
  CHECK(post(writer, reader, lane, kFirst, kBytes - kFirst) == Code::ok);
  if (at_last) {
    CHECK(wait_for([&] {
      writer.poll();
      reader.poll();
      return lane.receive.arrived->load() == kBytes;
    }));
    CHECK(std::equal(lane.send.ring, lane.send.ring + kBytes, lane.receive.ring));
    CHECK(failing_device.refused == 0);
    CHECK(writer.state(1) == PeerState::alive);
  } else {
    CHECK(wait_for([&] {
      writer.poll();
      reader.poll();
      return writer.state(1) == PeerState::dead;
    }));
    SendMemory memory;
    const Status status = writer.connect(1, 0, memory);
    CHECK(status.code() == Code::peer_lost);
    CHECK(status.text().find("Cannot allocate memory") != std::string::npos);
  }
  failing_device.refused = 0;
}

TEST_CASE("a peer for whose completions there is no room is refused, and no other is lost",
          "[verbs]") {
  if (!has_device()) return;
  failing_device.max_entries = 2048 + 2 * 63 + 62;  // receives, and requests to two peers
  const bool from_here = GENERATE(true, false);
  std::vector<Rank> ranks = open_ranks(4);
  failing_device.max_entries = 0;
  open_lane(ranks, 1, 0);
  open_lane(ranks, 2, 0);
  Fabric& full = *ranks[0].fabrics->to(3);
  Fabric& other = *ranks[3].fabrics->to(0);
  Fabric& asker = from_here ? full : other;
  const int asked = from_here ? 3 : 0;
  SendMemory memory;
  Status status;
  CHECK(wait_for([&] {
    full.poll();
    other.poll();
    status = asker.connect(asked, 0, memory);
    return status.code() != Code::again;
  }));
  INFO(status.text());
  CHECK(status.code() == Code::peer_lost);
  CHECK(status.text().find("rank 0") != std::string::npos);
  CHECK(status.text().find("rank 3") != std::string::npos);
  CHECK(status.text().find(from_here ? "talk to fewer" : "no room") != std::string::npos);
  CHECK(full.state(3) == PeerState::dead);
  for (const int peer : {1, 2}) {
    CHECK(full.state(peer) == PeerState::alive);
    open_lane(ranks, peer, 1);
  }
}

TEST_CASE("the completion queue grows with the connections", "[verbs]") {
  if (!has_device()) return;
  failing_device.max_entries = 30'000;
  failing_device.first_entries = 2048 + 63;  // receives, and requests to one peer
  std::vector<Rank> ranks = open_ranks(4);
  failing_device.max_entries = 0;
  failing_device.first_entries = INT_MAX;
  const long before = queues_kib();
  for (int peer = 1; peer < 4; ++peer) open_lane(ranks, peer, 0);
  CHECK(queues_kib() > before);
}

TEST_CASE("a completion queue that fails ends its process's connections", "[verbs]") {
  if (!has_device()) return;
  std::vector<Rank> ranks = open_ranks(2);
  open_lane(ranks, 1, 0);
  failing_device.queue_fails = true;  // of one of them, which the other then hears
  Fabric& one = *ranks[0].fabrics->to(1);
  Fabric& other = *ranks[1].fabrics->to(0);
  CHECK(wait_for([&] {
    one.poll();
    other.poll();
    return one.state(1) == PeerState::dead && other.state(0) == PeerState::dead;
  }));
  SendMemory memory;
  const std::string texts =
      one.connect(1, 1, memory).text() + "; " + other.connect(0, 1, memory).text();
  INFO(texts);
  CHECK(texts.find("completion queue failed") != std::string::npos);
}
