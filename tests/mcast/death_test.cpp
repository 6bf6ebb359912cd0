// Members of a group that are killed, at any step: no survivor hangs, succeeds without all messages
// everywhere, or delivers a broken one, and each names the member that died.
//
// Every member is a process, made by fork before this one has any threads.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <random>

#include "team.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

constexpr int kMembers = 5;
constexpr int kMessages = 8;
constexpr std::size_t kBytes = 50'000;
constexpr int kTimeoutMs = 2000;
const char* const kKilled[] = {"pipeline", "chain", "tree", "sequential", "hybrid"};

enum class Moment { ready, incoming, first_complete, half_complete, close, any };
const char* name_of(Moment moment) {
  switch (moment) {
    case Moment::ready:
      return "when all have come";
    case Moment::incoming:
      return "at its first buffer";
    case Moment::first_complete:
      return "after its first message";
    case Moment::half_complete:
      return "after half of its messages";
    case Moment::close:
      return "before its close";
    case Moment::any:
      return "at any time";
  }
  return "";
}

struct Member {  // shared by all processes
  std::atomic<int> num_complete{0};
  std::atomic<bool> is_ready{false}, has_closed{false}, is_broken{false};
  std::atomic<int> code{-1};
  char text[400] = {};
  char address[2000] = {};
  std::atomic<bool> has_address{false};
};

struct Scene {
  Way way;
  const char* algorithm;
  int victim;
  Moment moment;
  bool is_early = false;  // killed while the group comes together, maybe
};

void die() { ::kill(::getpid(), SIGKILL); }

[[noreturn]] void run_member(const Scene& scene, Member* members, int rank) {
  // A member that hangs is found by its missing code.
  ::alarm(60);
  fabric::loopback::Network::of_process()->set_options(scene.way.options);
  ::setenv("WEFT_INTERFACE", "lo", 1);
  Member& own = members[rank];
  const bool dies = rank == scene.victim;
  const auto dies_at = [&](Moment moment) {
    if (dies && scene.moment == moment) die();
  };
  // Ended below, before the process: what was not yet told to others goes out then.
  std::optional<Multicast> multicast;
  multicast.emplace(NodeSettings{.name = "m" + std::to_string(rank),
                                 .secret = "secret",
                                 .timeout_ms = kTimeoutMs,
                                 .fabrics = scene.way.fabrics});
  std::string address;
  if (!multicast->node().address(address) || address.size() >= sizeof own.address) ::_exit(3);
  std::copy(address.begin(), address.end(), own.address);
  own.has_address = true;
  GroupSettings settings;
  settings.id = 1;
  settings.self = rank;
  settings.algorithm = scene.algorithm;
  settings.block_bytes = 4096;
  settings.small_bytes = 0;
  settings.create_timeout_ms = scene.is_early ? 3000 : 30'000;
  for (int i = 0; i < kMembers; ++i) {
    while (!members[i].has_address) ::usleep(500);
    settings.members.emplace_back(members[i].address);
  }
  std::vector<std::vector<std::byte>> buffers(kMessages), sent(kMessages);
  for (int i = 0; i < kMessages; ++i)
    sent[static_cast<std::size_t>(i)] = pattern(kBytes, static_cast<std::uint64_t>(i));
  std::size_t num_incoming = 0;
  GroupEvents events;
  events.on_incoming = [&](std::uint64_t bytes) -> void* {
    dies_at(Moment::incoming);
    if (num_incoming == buffers.size()) return nullptr;
    auto& buffer = buffers[num_incoming++];
    buffer.resize(bytes);
    return buffer.data();
  };
  events.on_complete = [&](void* data, std::uint64_t bytes) {
    const int place = own.num_complete++;
    const auto& wanted = sent[static_cast<std::size_t>(place)];
    if (bytes != wanted.size() || std::memcmp(data, wanted.data(), bytes) != 0)
      own.is_broken = true;
    if (place == 0) dies_at(Moment::first_complete);
    if (place == kMessages / 2) dies_at(Moment::half_complete);
  };
  Status status;
  {
    Group group(*multicast, settings, events);
    status = group.ready();
    own.is_ready = true;
    dies_at(Moment::ready);
    for (int i = 0; rank == 0 && i < kMessages; ++i)
      if (!group.send(sent[static_cast<std::size_t>(i)].data(), kBytes)) break;
    if (dies && scene.moment == Moment::close) {
      while (own.num_complete < kMessages) ::usleep(200);
      die();
    }
    status = group.close(40'000);
    own.has_closed = true;
  }
  const std::string text = status.text().substr(0, sizeof own.text - 1);
  std::copy(text.begin(), text.end(), own.text);
  own.code = static_cast<int>(status.code());
  if (dies) die();
  multicast.reset();
  ::_exit(0);
}

void play(const Scene& scene, std::uint64_t seed = 0) {
  INFO(scene.way.name << ", " << scene.algorithm << ": member " << scene.victim << " is killed "
                      << name_of(scene.moment) << ", seed " << seed);
  void* shared = ::mmap(nullptr, sizeof(Member) * kMembers, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  auto* members = new (shared) Member[kMembers];
  std::vector<pid_t> processes;
  for (int rank = 0; rank < kMembers; ++rank) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) run_member(scene, members, rank);
    processes.push_back(child);
  }
  if (scene.moment == Moment::any) {
    const auto victim = static_cast<std::size_t>(scene.victim);
    std::mt19937_64 random(seed);
    // Nobody can wait for who has no address.
    const auto& begun = scene.is_early ? members[victim].has_address : members[victim].is_ready;
    while (!begun) ::usleep(100);
    ::usleep(static_cast<useconds_t>(random() % 20'000));
    ::kill(processes[victim], SIGKILL);
  }
  for (int rank = 0; rank < kMembers; ++rank) {
    int status = 0;
    REQUIRE(::waitpid(processes[static_cast<std::size_t>(rank)], &status, 0) > 0);
    INFO("member " << rank);
    if (rank == scene.victim)
      CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    else
      CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  const std::string who = "member " + std::to_string(scene.victim);
  for (int rank = 0; rank < kMembers; ++rank) {
    const Member& member = members[rank];
    INFO("member " << rank << " has " << member.num_complete << ": " << member.text);
    CHECK_FALSE(member.is_broken);
    if (rank == scene.victim) continue;
    REQUIRE(member.code != -1);
    if (member.code == static_cast<int>(Code::ok)) {
      // Everybody had everything, also who died then.
      for (int i = 0; i < kMembers; ++i) CHECK(members[i].num_complete == kMessages);
      continue;
    }
    if (scene.is_early) continue;  // who is missed first need not be who died
    CHECK(std::string(member.text).find(who) != std::string::npos);
  }
  ::munmap(shared, sizeof(Member) * kMembers);
}

}  // namespace

TEST_CASE("a member that is killed at any step fails the group everywhere, by name") {
  for (const char* algorithm : kKilled)
    for (const int victim : {0, 1, 4})
      for (const Moment moment : {Moment::ready, Moment::incoming, Moment::first_complete,
                                  Moment::half_complete, Moment::close}) {
        if (victim == 0 && moment == Moment::incoming) continue;
        play({kWays[0], algorithm, victim, moment});
      }
}

TEST_CASE("a member that is killed at any time harms nobody") {
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    play({kWays[0], kKilled[seed % 5], static_cast<int>(seed % kMembers), Moment::any,
          seed % 4 == 0},
         seed);
}

TEST_CASE("a member that is killed is named over tcp, too") {
  for (const int victim : {0, 1, 4})
    for (const Moment moment : {Moment::half_complete, Moment::close})
      play({kWays[1], "pipeline", victim, moment});
}

// By tests/mcast/limited, which makes the loopback interface slow.
TEST_CASE("a member that is killed at any step over slow links is named", "[.][limited]") {
  const Moment moments[] = {Moment::incoming, Moment::first_complete, Moment::half_complete,
                            Moment::close};
  for (const int victim : {0, 1, 4})
    for (const Moment moment : moments)
      if (victim != 0 || moment != Moment::incoming) play({kWays[1], "pipeline", victim, moment});
  for (std::uint64_t i = 1; i < std::size(kKilled); ++i)
    play({kWays[1], kKilled[i], static_cast<int>(i), moments[i % std::size(moments)]});
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    play({kWays[1], kKilled[seed], static_cast<int>(seed), Moment::any}, seed);
}
