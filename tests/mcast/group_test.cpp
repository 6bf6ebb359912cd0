// Groups of members in one process, over every fabric: all sizes arrive, in order, once; members
// that differ, die or leave are named to all others.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "peer/address.hpp"
#include "team.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

const char* const kAlgorithms[] = {"pipeline",   "tree",   "chain",
                                   "sequential", "hybrid", "hybrid-blocks"};

template <class F>
void over_each(F&& body) {
  for (const Way& way : kWays) {
    INFO("over " << way.name);
    body(way);
  }
}

}  // namespace

TEST_CASE("messages of all sizes reach all members by every algorithm") {
  over_each([](const Way& way) {
    Team team(way, 6);
    std::uint64_t id = 0;
    for (const char* algorithm : kAlgorithms) {
      INFO(algorithm);
      TeamGroup group(team, ++id, algorithm, 4096,
                      [](GroupSettings& settings) { settings.racks = {0, 0, 1, 1, 2, 2}; });
      group.require_ready();
      std::vector<std::vector<std::byte>> sent;
      for (const std::size_t bytes :
           {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{10'240},
            std::size_t{10'241}, std::size_t{12'288}, std::size_t{300'001}, std::size_t{5},
            std::size_t{0}, std::size_t{65'536}})
        sent.push_back(pattern(bytes, sent.size()));
      for (const auto& data : sent) REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
      group.require_closed();
      for (const Inbox& inbox : group.inboxes) {
        REQUIRE(inbox.complete == sent);
        CHECK(inbox.failures.empty());
      }
      CHECK(group.inboxes[0].num_incoming == 0);
    }
  });
}

TEST_CASE("groups of every size work, and of one") {
  for (int size = 1; size <= 20; ++size) {
    INFO(size << " members");
    Team team(kWays[0], size);
    for (const bool uses_small : {false, true}) {
      TeamGroup group(team, 1, "pipeline", 1000, [&](GroupSettings& settings) {
        if (!uses_small) settings.small_bytes = 0;
      });
      const auto data = pattern(7'777, 3);
      for (int i = 0; i < 3; ++i) REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
      group.require_closed();
      for (const Inbox& inbox : group.inboxes) {
        REQUIRE(inbox.complete.size() == 3);
        REQUIRE(inbox.complete[2] == data);
      }
    }
  }
}

// Above 256 KiB a block's receiver gives credit when most of it is there, below that with each
// block for one some blocks ahead.
TEST_CASE("blocks of every size wait for credit, and all come") {
  const struct {
    const char* algorithm;
    std::size_t block_bytes;
  } cases[] = {
      {"pipeline", 0}, {"pipeline", 200'000}, {"pipeline", 262'145}, {"hybrid-blocks", 400'000}};
  for (const std::size_t way : {std::size_t{0}, std::size(kWays) - 1}) {
    Team team(kWays[way], 7);
    std::uint64_t id = 0;
    for (const auto& item : cases) {
      INFO("over " << kWays[way].name << ", " << item.algorithm << ", " << item.block_bytes);
      TeamGroup group(team, ++id, item.algorithm, item.block_bytes,
                      [](GroupSettings& settings) { settings.racks = {0, 0, 0, 1, 1, 1, 1}; });
      std::vector<std::vector<std::byte>> sent;
      for (const std::size_t bytes : {1'500'001u, 400'000u, 7u})
        sent.push_back(pattern(bytes, bytes));
      for (const auto& data : sent) REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
      group.require_closed();
      for (const Inbox& inbox : group.inboxes) REQUIRE(inbox.complete == sent);
    }
  }
}

TEST_CASE("many small messages stay in order behind large ones") {
  over_each([](const Way& way) {
    Team team(way, 4);
    TeamGroup group(team, 9, "pipeline", 8192);
    std::vector<std::vector<std::byte>> sent;
    for (std::size_t i = 0; i < 400; ++i)
      sent.push_back(pattern(i % 50 == 20 ? 100'000 : i % 300, i));
    for (const auto& data : sent) REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
    group.require_closed();
    for (const Inbox& inbox : group.inboxes) REQUIRE(inbox.complete == sent);
  });
}

TEST_CASE("posted buffers take messages without a call") {
  over_each([](const Way& way) {
    Team team(way, 3);
    TeamGroup group(team, 5, "pipeline", 4096);
    std::vector<void*> memory(9);
    for (int rank = 1; rank < 3; ++rank)
      for (int i = 0; i < 4; ++i) {
        void*& at = memory[static_cast<std::size_t>(rank * 3 + i - 3)];
        if (i == 3) continue;
        REQUIRE(team.members[static_cast<std::size_t>(rank)]->node().allocate(50'000, at).ok());
        REQUIRE(group.groups[static_cast<std::size_t>(rank)]->post(at, 50'000).ok());
      }
    CHECK(group.groups[1]->post(&team, 8) == Code::not_found);
    CHECK(group.groups[0]->post(memory[0], 8) == Code::bad_argument);
    group.require_ready();
    std::vector<std::vector<std::byte>> sent;
    for (const std::size_t bytes : {50'000u, 100u, 20'000u, 30'000u})
      sent.push_back(pattern(bytes, bytes));
    for (const auto& data : sent) REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
    group.require_closed();
    for (std::size_t rank = 1; rank < 3; ++rank) {
      REQUIRE(group.inboxes[rank].complete == sent);
      CHECK(group.inboxes[rank].num_incoming == 1);  // for the fourth
    }
  });
}

TEST_CASE("with delivery=all nothing is complete before everybody has it") {
  over_each([](const Way& way) {
    Team team(way, 5);
    TeamGroup group(team, 5, "pipeline", 4096,
                    [](GroupSettings& settings) { settings.delivery_all = true; });
    group.require_ready();
    const auto data = pattern(60'000, 1);
    for (int i = 0; i < 5; ++i) REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
    group.require_closed();
    for (const Inbox& inbox : group.inboxes) REQUIRE(inbox.complete.size() == 5);
  });
  // A member that has no buffer for it yet holds it back everywhere.
  Team team(kWays[0], 3);
  Inbox inboxes[3];
  std::atomic<bool> may_come{false};
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < 3; ++rank) {
    GroupSettings settings = team.settings(1, rank, "chain", 4096);
    settings.delivery_all = true;
    GroupEvents events = inboxes[rank].events();
    if (rank == 2)
      events.on_incoming = [&, usual = events.on_incoming](std::uint64_t bytes) {
        while (!may_come) std::this_thread::yield();
        return usual(bytes);
      };
    groups.push_back(std::make_unique<Group>(*team.members[static_cast<std::size_t>(rank)],
                                             settings, std::move(events)));
  }
  const auto data = pattern(60'000, 1);
  REQUIRE(groups[0]->send(data.data(), data.size()).ok());
  const auto limit = std::chrono::steady_clock::now() + kDeadline;
  while (inboxes[1].num_incoming == 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  CHECK(groups[0]->close(200) == Code::timed_out);
  CHECK(groups[0]->num_completed() == 0);
  CHECK(groups[1]->num_completed() == 0);
  may_come = true;
  for (auto& group : groups) CHECK(group->close().ok());
  for (Inbox& inbox : inboxes) CHECK(inbox.complete.size() == 1);
}

TEST_CASE("many overlapping groups share a team") {
  Team team(kWays[0], 5);
  std::vector<std::unique_ptr<TeamGroup>> groups;
  for (std::uint64_t id = 1; id <= 40; ++id)
    groups.push_back(
        std::make_unique<TeamGroup>(team, id, id % 2 == 0 ? "pipeline" : "chain", 4096));
  const auto data = pattern(100'000, 1);
  for (auto& group : groups)
    for (int i = 0; i < 3; ++i) REQUIRE(group->groups[0]->send(data.data(), data.size()).ok());
  for (auto& group : groups) {
    group->require_closed();
    for (const Inbox& inbox : group->inboxes) {
      REQUIRE(inbox.complete.size() == 3);
      REQUIRE(inbox.complete[2] == data);
    }
  }
}

TEST_CASE("members that do not agree are told who differs in what") {
  struct Case {
    const char* what;
    void (*change)(GroupSettings&);
  };
  const Case cases[] = {
      {"blocks of", [](GroupSettings& s) { s.block_bytes = 8192; }},
      {"the algorithm", [](GroupSettings& s) { s.algorithm = "tree"; }},
      {"members in its list", [](GroupSettings& s) { s.members.pop_back(); }},
      {"another list of members",
       [](GroupSettings& s) {
         std::swap(s.members[0], s.members[1]);
         s.self = 2;
       }},
      {"another list of members", [](GroupSettings& s) { s.members[3] = "unix:/nowhere"; }},
      {"other racks",
       [](GroupSettings& s) {
         s.racks = {0, 0, 1, 1};
       }},
      {"delivery_all", [](GroupSettings& s) { s.delivery_all = true; }}};
  for (const Case& item : cases) {
    INFO(item.what);
    Team team(kWays[0], 4);
    TeamGroup group(team, 1, "pipeline", 4096, [&](GroupSettings& settings) {
      if (settings.self == 2) item.change(settings);
    });
    for (auto& member : group.groups) {
      const Status status = member->ready();
      INFO(status.text());
      CHECK(status == Code::bad_argument);
      CHECK(status.text().find("member 2") != std::string::npos);
      CHECK(status.text().find(item.what) != std::string::npos);
    }
  }
}

TEST_CASE("a member that does not come is named, and one that is no member is refused") {
  Team team(kWays[0], 4);
  Inbox inboxes[4];
  std::vector<std::unique_ptr<Group>> groups;
  for (const int rank : {0, 1, 2}) {
    GroupSettings settings = team.settings(1, rank, "pipeline", 4096);
    settings.create_timeout_ms = 300;
    groups.push_back(std::make_unique<Group>(*team.members[static_cast<std::size_t>(rank)],
                                             settings, inboxes[rank].events()));
  }
  for (auto& group : groups) {
    const Status status = group->ready();
    INFO(status.text());
    CHECK(status == Code::timed_out);
  }
  const auto refused = [&](auto&& change) {
    GroupSettings settings = team.settings(2, 0, "pipeline", 4096);
    change(settings);
    try {
      Group group(*team.members[0], settings, {});
    } catch (const Error& error) {
      return error.status() == Code::bad_argument;
    }
    return false;
  };
  CHECK(refused([](GroupSettings& s) { s.self = 4; }));
  CHECK(refused([](GroupSettings& s) { s.members.clear(); }));
  CHECK(refused([](GroupSettings& s) { s.members[1] = s.members[0]; }));
  CHECK(refused([](GroupSettings& s) { s.algorithm = "magic"; }));
  CHECK(refused([](GroupSettings& s) { s.racks = {1}; }));
  CHECK(refused([](GroupSettings& s) { s.small_bytes = 20'000; }));
  CHECK(refused([](GroupSettings& s) { s.id = 1; }));
  groups.clear();
  Group again(*team.members[0], team.settings(1, 0, "pipeline", 4096), {});
  CHECK(again.ready() == Code::timed_out);  // an id that has failed stays so
}

TEST_CASE("a buffer that is too small, or none, fails the group and names its member") {
  for (const bool is_posted : {false, true}) {
    Team team(kWays[0], 4);
    Inbox inboxes[4];
    std::vector<std::unique_ptr<Group>> groups;
    for (int rank = 0; rank < 4; ++rank) {
      GroupEvents events = inboxes[rank].events();
      if (rank == 3) events.on_incoming = [](std::uint64_t) { return nullptr; };
      groups.push_back(std::make_unique<Group>(*team.members[static_cast<std::size_t>(rank)],
                                               team.settings(1, rank, "chain", 4096),
                                               std::move(events)));
    }
    if (is_posted) {
      void* memory = nullptr;
      REQUIRE(team.members[3]->node().allocate(30'000, memory).ok());
      REQUIRE(groups[3]->post(memory, 30'000).ok());
    }
    const auto data = pattern(60'000, 1);
    REQUIRE(groups[0]->send(data.data(), data.size()).ok());
    for (int rank = 0; rank < 4; ++rank) {
      const Status status = groups[static_cast<std::size_t>(rank)]->close();
      INFO(status.text());
      CHECK(status == Code::truncated);
      CHECK(status.text().find("member 3") != std::string::npos);
      CHECK(inboxes[rank].failures.size() == 1);
    }
  }
}

TEST_CASE("a member that leaves at any step fails the group everywhere, by name") {
  over_each([](const Way& way) {
    for (const char* algorithm : kAlgorithms) {
      for (int victim = 0; victim < 5; ++victim) {
        INFO(algorithm << ", member " << victim << " leaves");
        Team team(way, 5, 30'000);
        TeamGroup group(team, 1, algorithm, 2048);
        group.require_ready();
        const auto data = pattern(40'000, 1);
        const auto place = static_cast<std::size_t>(victim);
        for (int i = 0; i < 50; ++i) REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
        const auto limit = std::chrono::steady_clock::now() + kDeadline;
        while (group.groups[place]->num_completed() < static_cast<std::uint64_t>(victim * 3 + 1) &&
               std::chrono::steady_clock::now() < limit)
          std::this_thread::yield();
        group.groups[place].reset();
        for (auto& member : group.groups) {
          if (member == nullptr) continue;
          const Status status = member->close();
          INFO("member " << member->rank() << ": " << status.text());
          CHECK(status == Code::cancelled);
          CHECK(status.text().find("member " + std::to_string(victim)) != std::string::npos);
          const auto& complete = group.inboxes[static_cast<std::size_t>(member->rank())].complete;
          for (const auto& item : complete) REQUIRE(item == data);
        }
      }
    }
  });
}

TEST_CASE("a close that has waited in vain names the member that cannot be reached") {
  const Way way{"loopback", "loopback"};
  Team team(way, 3, 20'000);
  TeamGroup group(team, 1, "chain", 4096);
  group.require_ready();
  peer::NodeAddress address;
  REQUIRE(peer::from_text(team.addresses[2], address).ok());
  const std::string device = address.fabrics.front().address;
  const auto& network = fabric::loopback::Network::of_process();
  network->silence(device, true);
  const auto data = pattern(60'000, 1);
  REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
  std::string text;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  while (text.find("unreachable") == std::string::npos &&
         std::chrono::steady_clock::now() < limit) {
    const Status status = group.groups[0]->close(100);
    REQUIRE(status == Code::timed_out);
    text = status.text();
  }
  network->silence(device, false);
  INFO(text);
  CHECK(text.find("; member 2 (" + team.addresses[2] + ") has been unreachable for ") !=
        std::string::npos);
  CHECK(text.find("lost after 20000 ms") != std::string::npos);
  CHECK(text.find("member 1") == std::string::npos);
  group.require_closed();  // it comes back
  CHECK(team.members[0]->node().timeout_ms() == 20'000);
}

TEST_CASE("only the root sends, and not after close; an id is free again after its group") {
  Team team(kWays[0], 3);
  for (int round = 0; round < 20; ++round) {
    TeamGroup group(team, 1, "pipeline", 4096);
    const auto data = pattern(5'000, 1);
    CHECK(group.groups[1]->send(data.data(), data.size()) == Code::bad_argument);
    REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
    group.require_closed();
    CHECK(group.groups[0]->send(data.data(), data.size()) == Code::bad_argument);
  }
}

TEST_CASE("links that break with every hundredth packet lose nothing") {
  struct Faulty {
    Faulty() {
      fabric::loopback::Network::of_process()->set_faults(
          {.seed = 5, .max_delay_us = 50, .cut_one_in = 100});
    }
    ~Faulty() { fabric::loopback::Network::of_process()->set_faults({}); }
  };
  for (const Way& way : kWays) {
    if (std::string(way.fabrics) != "loopback") continue;
    for (const char* algorithm : kAlgorithms) {
      INFO(way.name << ", " << algorithm);
      Team team(way, 6, 30'000);
      TeamGroup group(team, 1, algorithm, 4096,
                      [](GroupSettings& settings) { settings.racks = {0, 0, 1, 1, 2, 2}; });
      group.require_ready();
      const Faulty faulty;
      const auto data = pattern(300'001, 1), few = pattern(3'000, 2);
      for (int i = 0; i < 4; ++i) {
        REQUIRE(group.groups[0]->send(data.data(), data.size()).ok());
        REQUIRE(group.groups[0]->send(few.data(), few.size()).ok());
      }
      group.require_closed();
      for (const Inbox& inbox : group.inboxes) {
        REQUIRE(inbox.complete.size() == 8);
        for (std::size_t i = 0; i < 8; ++i) REQUIRE(inbox.complete[i] == (i % 2 == 0 ? data : few));
      }
    }
  }
}

// Takes 5 GiB of memory and some seconds: only by name, mcast_group_test '[large]'.
TEST_CASE("a message of more than 4 GiB arrives whole", "[.][large]") {
  constexpr std::uint64_t kBytes = (std::uint64_t{5} << 30) + 3;
  constexpr std::size_t kPiece = 64 << 20;
  // What is sent repeats one piece of memory; what arrives is all there.
  const auto piece = pattern(kPiece, 1);
  const int file = ::memfd_create("large", MFD_CLOEXEC);
  REQUIRE(file >= 0);
  REQUIRE(::write(file, piece.data(), kPiece) == static_cast<ssize_t>(kPiece));
  constexpr std::size_t kMapped = (kBytes + kPiece - 1) / kPiece * kPiece;
  const auto map = [](std::size_t bytes, int prot, int flags, void* at, int from) {
    void* memory = ::mmap(at, bytes, prot, flags, from, 0);
    REQUIRE(memory != MAP_FAILED);
    return static_cast<std::byte*>(memory);
  };
  std::byte* from = map(kMapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, nullptr, -1);
  for (std::size_t at = 0; at < kMapped; at += kPiece)
    map(kPiece, PROT_READ, MAP_SHARED | MAP_FIXED, from + at, file);
  std::byte* to = map(kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      nullptr, -1);
  {
    Team team(kWays[0], 2);
    std::atomic<std::uint64_t> arrived{0};
    GroupEvents events;
    events.on_incoming = [&](std::uint64_t bytes) { return bytes == kBytes ? to : nullptr; };
    events.on_complete = [&](void*, std::uint64_t bytes) { arrived = bytes; };
    Group root(*team.members[0], team.settings(1, 0, "pipeline", 1 << 20), {});
    Group other(*team.members[1], team.settings(1, 1, "pipeline", 1 << 20), std::move(events));
    REQUIRE(root.ready().ok());
    REQUIRE(root.send(from, kBytes).ok());
    CHECK(root.close(200'000).ok());
    CHECK(other.close(200'000).ok());
    CHECK(arrived == kBytes);
    for (std::uint64_t at = 0; at < kBytes; at += kPiece)
      REQUIRE(std::memcmp(to + at, piece.data(), std::min<std::uint64_t>(kPiece, kBytes - at)) ==
              0);
  }
  ::munmap(from, kMapped);
  ::munmap(to, kMapped);
  ::close(file);
}

TEST_CASE("what would wait for itself within a callback is refused") {
  Team team(kWays[0], 2);
  std::vector<Status> refused;
  std::mutex lock;
  const auto within = [&](Group& group) {
    std::lock_guard guard(lock);
    refused.push_back(group.ready());
    refused.push_back(group.close());
  };
  Inbox inboxes[2];
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < 2; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    GroupEvents events = inboxes[place].events();
    events.on_complete = [&, place](void*, std::uint64_t) { within(*groups[place]); };
    groups.push_back(std::make_unique<Group>(
        *team.members[place], team.settings(1, rank, "pipeline", 4096), std::move(events)));
  }
  for (auto& group : groups) REQUIRE(group->ready().ok());
  const auto data = pattern(50'000, 1);
  REQUIRE(groups[0]->send(data.data(), data.size()).ok());
  for (auto& group : groups) CHECK(group->close().ok());
  REQUIRE(refused.size() == 4);
  for (const Status& status : refused) {
    CHECK(status == Code::bad_argument);
    CHECK(status.text().find("within a callback") != std::string::npos);
  }
}
