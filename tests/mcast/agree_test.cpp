// Members whose settings differ: every one hears soon which member differs, in what, and both
// values; also where members leave as soon as they know.
#include "team.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

// A member that waits for others takes so long.
constexpr auto kSoon = std::chrono::seconds(10);

struct Case {
  const char* what;
  void (*change)(GroupSettings&);
  // What all members are told: `told`, or the same from the other side.
  const char *told, *other;
};

const Case kCases[] = {
    {"block_bytes", [](GroupSettings& s) { s.block_bytes = 8192; },
     "has blocks of 8192 bytes, this member of 4096",
     "has blocks of 4096 bytes, this member of 8192"},
    {"algorithm", [](GroupSettings& s) { s.algorithm = "sequential"; },
     "uses the algorithm sequential, this member pipeline",
     "uses the algorithm pipeline, this member sequential"},
    {"native", [](GroupSettings& s) { s.algorithm = "native"; },
     "uses the algorithm native, this member pipeline",
     "uses the algorithm pipeline, this member native"},
    {"small_bytes", [](GroupSettings& s) { s.small_bytes = 0; },
     "has small_bytes of 0, this member of 10240", "has small_bytes of 10240, this member of 0"},
    {"delivery_all", [](GroupSettings& s) { s.delivery_all = true; },
     "has delivery_all on, this member off", "has delivery_all off, this member on"},
    {"racks",
     [](GroupSettings& s) {
       s.racks.assign(s.members.size(), 0);
       s.racks.back() = 1;
     },
     "has other racks", "has other racks"},
    {"a shorter list", [](GroupSettings& s) { s.members.resize(s.members.size() - 1); },
     "members in its list, this member", "members in its list, this member"},
    {"the list in another order",
     [](GroupSettings& s) {
       std::ranges::rotate(s.members, s.members.begin() + 1);
       s.self =
           (s.self + static_cast<int>(s.members.size()) - 1) % static_cast<int>(s.members.size());
     },
     "has another list of members", "has another list of members"},
    {"the place of another", [](GroupSettings& s) { ++s.self; }, "as its self", "as its self"},
};

struct Told {
  std::string victim;  // its address
  std::vector<Status> results;
};

// All members at once, one of which has changed its settings.
Told try_to_agree(int size, int victim, bool leaves, const char* algorithm,
                  void (*change)(GroupSettings&)) {
  Team team(kWays[0], size);
  Told told{team.addresses[static_cast<std::size_t>(victim)],
            std::vector<Status>(static_cast<std::size_t>(size))};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      const auto place = static_cast<std::size_t>(rank);
      GroupSettings settings = team.settings(1, rank, algorithm, 4096);
      if (rank == victim) change(settings);
      {
        Group group(*team.members[place], settings, {});
        told.results[place] = group.ready();
      }
      if (leaves) team.members[place].reset();
    });
  for (std::thread& thread : threads) thread.join();
  return told;
}

}  // namespace

TEST_CASE("every member hears soon in what another differs, and both values") {
  const struct {
    int size, victim;
    bool leaves;
  } scenes[] = {{3, 0, false}, {3, 1, false}, {3, 1, true},
                {6, 0, true},  {6, 4, false}, {6, 4, true}};
  for (const auto& [size, victim, leaves] : scenes)
    for (const Case& item : kCases) {
      INFO(item.what << " differs at member " << victim << " of " << size
                     << (leaves ? ", members leave" : ""));
      const auto began = std::chrono::steady_clock::now();
      const auto [address, results] = try_to_agree(size, victim, leaves, "pipeline", item.change);
      CHECK(std::chrono::steady_clock::now() - began < kSoon);
      for (const Status& status : results) {
        INFO(status.text());
        CHECK(status == Code::bad_argument);
        CHECK(status.text().find("(" + address + ")") != std::string::npos);
        CHECK((status.text().find(item.told) != std::string::npos ||
               status.text().find(item.other) != std::string::npos));
      }
    }
}

TEST_CASE("native groups are told both multicast addresses") {
  const auto change = [](GroupSettings& s) { s.multicast_address = "239.255.7.8:5001"; };
  for (const Status& status : try_to_agree(3, 2, false, "native", change).results) {
    INFO(status.text());
    CHECK(status == Code::bad_argument);
    CHECK((status.text().find("has the multicast address '239.255.7.8:5001', this member ''") !=
               std::string::npos ||
           status.text().find("has the multicast address '', this member '239.255.7.8:5001'") !=
               std::string::npos));
  }
}

TEST_CASE("a member whose list has it by another address is told so") {
  const auto change = [](GroupSettings& s) {
    s.members[static_cast<std::size_t>(s.self)] = "unix:/nowhere";
  };
  for (const int victim : {0, 1, 2})
    for (const Status& status : try_to_agree(3, victim, false, "pipeline", change).results) {
      INFO("member " << victim << ": " << status.text());
      CHECK(status == Code::bad_argument);
    }
}

// One that comes once the others have failed.
TEST_CASE("a member that comes late hears why, too") {
  Team team(kWays[0], 3);
  std::vector<std::unique_ptr<Group>> groups;
  for (const int rank : {0, 1}) {
    GroupSettings settings = team.settings(1, rank, "pipeline", 4096);
    if (rank == 1) settings.block_bytes = 8192;
    groups.push_back(std::make_unique<Group>(*team.members[static_cast<std::size_t>(rank)],
                                             settings, GroupEvents{}));
  }
  for (auto& group : groups) CHECK(group->ready() == Code::bad_argument);
  groups.clear();
  const auto began = std::chrono::steady_clock::now();
  Group late(*team.members[2], team.settings(1, 2, "pipeline", 4096), {});
  const Status status = late.ready();
  INFO(status.text());
  CHECK(std::chrono::steady_clock::now() - began < kSoon);
  CHECK(status == Code::bad_argument);
  CHECK(status.text().find("blocks of") != std::string::npos);
}
