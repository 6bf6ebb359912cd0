#pragma once
// Members of groups that are threads' worth of one process, over any fabric.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/loopback/loopback.hpp"
#include "weft/job.hpp"
#include "weft/multicast.hpp"

namespace weft::testing {

inline constexpr auto kDeadline = std::chrono::seconds(30);

struct Way {
  const char* name;
  const char* fabrics;
  fabric::loopback::Options options = {};
};
inline const Way kWays[] = {
    {"shared memory", "shm"},
    {"tcp", "tcp"},
    {"loopback", "loopback"},
    {"loopback that does messages only",
     "loopback",
     {.message_max = 512, .puts = false, .gets = false, .atomics = false}},
};

inline std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> data(bytes);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (std::byte& item : data) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    item = static_cast<std::byte>(state >> 24);
  }
  return data;
}

// What one member has got. Its buffers are its own.
struct Inbox {
  std::mutex lock;
  std::condition_variable changed;
  std::vector<std::vector<std::byte>> buffers, complete;
  std::vector<Status> failures;
  std::atomic<int> num_incoming = 0;

  GroupEvents events() {
    return {.on_incoming = [this](std::uint64_t bytes) -> void* {
              std::lock_guard guard(lock);
              ++num_incoming;
              buffers.emplace_back(bytes);
              return buffers.back().data();
            },
            .on_complete =
                [this](void* data, std::uint64_t bytes) {
                  std::lock_guard guard(lock);
                  const auto* from = static_cast<const std::byte*>(data);
                  complete.emplace_back(from, from + bytes);
                  changed.notify_all();
                },
            .on_failure =
                [this](const Status& why) {
                  std::lock_guard guard(lock);
                  failures.push_back(why);
                  changed.notify_all();
                }};
  }
  bool wait_for(std::size_t num_complete) {
    std::unique_lock guard(lock);
    return changed.wait_for(guard, kDeadline, [&] { return complete.size() >= num_complete; });
  }
  bool wait_for_failure() {
    std::unique_lock guard(lock);
    return changed.wait_for(guard, kDeadline, [&] { return !failures.empty(); });
  }
};

struct Team {
  Team(const Way& way, int size, int timeout_ms = 10'000) {
    fabric::loopback::Network::of_process()->set_options(way.options);
    ::setenv("WEFT_INTERFACE", "lo", 1);
    for (int rank = 0; rank < size; ++rank) {
      members.push_back(std::make_unique<Multicast>(NodeSettings{.name = "m" + std::to_string(rank),
                                                                 .secret = "secret",
                                                                 .timeout_ms = timeout_ms,
                                                                 .fabrics = way.fabrics}));
      addresses.emplace_back();
      REQUIRE(members.back()->node().address(addresses.back()).ok());
    }
  }
  GroupSettings settings(std::uint64_t id, int self, const std::string& algorithm,
                         std::size_t block_bytes) const {
    GroupSettings settings;
    settings.id = id;
    settings.members = addresses;
    settings.self = self;
    settings.algorithm = algorithm;
    settings.block_bytes = block_bytes;
    return settings;
  }
  int size() const { return static_cast<int>(members.size()); }
  std::vector<std::unique_ptr<Multicast>> members;
  std::vector<std::string> addresses;
};

// One group of a whole team.
struct TeamGroup {
  template <class Change>
  TeamGroup(Team& team, std::uint64_t id, const std::string& algorithm, std::size_t block_bytes,
            Change&& change)
      : inboxes(static_cast<std::size_t>(team.size())) {
    for (int rank = 0; rank < team.size(); ++rank) {
      GroupSettings settings = team.settings(id, rank, algorithm, block_bytes);
      change(settings);
      const auto place = static_cast<std::size_t>(rank);
      groups.push_back(
          std::make_unique<Group>(*team.members[place], settings, inboxes[place].events()));
    }
  }
  TeamGroup(Team& team, std::uint64_t id, const std::string& algorithm, std::size_t block_bytes)
      : TeamGroup(team, id, algorithm, block_bytes, [](GroupSettings&) {}) {}
  void require_ready() {
    for (auto& group : groups) {
      const Status status = group->ready();
      INFO(status.text());
      REQUIRE(status.ok());
    }
  }
  void require_closed() {
    for (auto& group : groups) {
      const Status status = group->close(30'000);
      INFO("member " << group->rank() << ": " << status.text());
      REQUIRE(status.ok());
    }
  }
  std::vector<Inbox> inboxes;
  std::vector<std::unique_ptr<Group>> groups;
};

}  // namespace weft::testing
