// GroupEvents::on_times: once for each message, before its on_complete, and all of its time is
// told; where a message waits for other members, that is "other".
#include "team.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

constexpr auto kHeldUp = std::chrono::milliseconds(60);

// What one member is told, in order; a message's times are empty where it is complete first.
struct Log {
  std::mutex lock;
  std::vector<MessageTimes> times;
  std::size_t num_complete = 0;
  bool is_in_order = true;

  void add_to(GroupEvents& events) {
    events.on_times = [this](const MessageTimes& one) {
      std::lock_guard guard(lock);
      times.push_back(one);
    };
    events.on_complete = [this, usual = events.on_complete](void* data, std::uint64_t bytes) {
      {
        std::lock_guard guard(lock);
        ++num_complete;
        is_in_order = is_in_order && times.size() == num_complete && times.back().bytes == bytes;
      }
      usual(data, bytes);
    };
  }
};

double at(const MessageTimes& times, Spent spent) {
  return times.us[static_cast<std::size_t>(spent)];
}

// Sends messages of these sizes; if so, the last member is held up before each of its buffers.
void play(const std::vector<std::size_t>& sizes, bool delivery_all, bool holds_up,
          std::vector<Log>& logs) {
  Team team(kWays[0], static_cast<int>(logs.size()));
  std::vector<Inbox> inboxes(logs.size());
  std::vector<std::unique_ptr<Group>> groups;
  for (std::size_t rank = 0; rank < logs.size(); ++rank) {
    GroupSettings settings = team.settings(1, static_cast<int>(rank), "chain", 4096);
    settings.delivery_all = delivery_all;
    GroupEvents events = inboxes[rank].events();
    if (holds_up && rank + 1 == logs.size())
      events.on_incoming = [usual = events.on_incoming](std::uint64_t bytes) {
        std::this_thread::sleep_for(kHeldUp);  // this is what is measured
        return usual(bytes);
      };
    logs[rank].add_to(events);
    groups.push_back(std::make_unique<Group>(*team.members[rank], settings, std::move(events)));
  }
  for (auto& group : groups) REQUIRE(group->ready().ok());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto data = pattern(sizes[i], i);
    REQUIRE(groups[0]->send(data.data(), data.size()).ok());
    for (Inbox& inbox : inboxes) REQUIRE(inbox.wait_for(i + 1));
  }
  for (auto& group : groups) REQUIRE(group->close().ok());
}

void check_whole(const Log& log, const std::vector<std::size_t>& sizes) {
  CHECK(log.is_in_order);
  REQUIRE(log.times.size() == sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const MessageTimes& times = log.times[i];
    INFO("message " << i << " of " << sizes[i] << " bytes");
    CHECK(times.bytes == sizes[i]);
    CHECK(times.block_bytes == 4096);
    double sum = 0;
    for (const double us : times.us) {
      CHECK(us >= 0);
      sum += us;
    }
    CHECK(times.total_us > 0);
    CHECK(sum == Approx(times.total_us));
  }
}

}  // namespace

TEST_CASE("messages that are sent at once have times, and no blocks") {
  const std::vector<std::size_t> sizes = {1, 0, 5'000, 10'240};
  for (const bool delivery_all : {false, true}) {
    INFO((delivery_all ? "delivery_all" : "local"));
    std::vector<Log> logs(4);
    play(sizes, delivery_all, false, logs);
    for (const Log& log : logs) {
      check_whole(log, sizes);
      for (const MessageTimes& times : log.times) {
        CHECK(times.received.empty());
        CHECK(times.sent.empty());
        CHECK(at(times, Spent::sending) == 0);
        CHECK(at(times, Spent::credit) == 0);
      }
    }
  }
}

TEST_CASE("with delivery_all the wait for all members is told as other") {
  // By the schedule, and at once.
  for (const std::size_t bytes : {std::size_t{30'000}, std::size_t{100}}) {
    const std::vector<std::size_t> sizes = {bytes, bytes};
    const double held_us = std::chrono::duration<double, std::micro>(kHeldUp).count();
    std::vector<Log> logs(3);
    play(sizes, true, true, logs);
    for (std::size_t rank = 0; rank < logs.size(); ++rank) {
      INFO(bytes << " bytes at member " << rank);
      check_whole(logs[rank], sizes);
      for (const MessageTimes& times : logs[rank].times) {
        // The second member of the chain waits for the third's memory, if it is to send to it.
        const bool waits_for_memory = rank == 1 && bytes == 30'000;
        const Spent spent = rank == 2          ? Spent::setup
                            : waits_for_memory ? Spent::buffer
                                               : Spent::other;
        // It may have heard of the message a little later.
        CHECK(at(times, spent) >= held_us / 2);
        const std::size_t num_blocks = bytes == 100 ? 0 : 8;
        CHECK(times.received.size() == (rank == 0 ? 0 : num_blocks));
        CHECK(times.sent.size() == (rank == 2 ? 0 : num_blocks));
      }
    }
  }
}

TEST_CASE("without delivery_all no member waits for one that is held up beyond its neighbors") {
  const std::vector<std::size_t> sizes = {100};
  std::vector<Log> logs(3);
  play(sizes, false, true, logs);
  for (const Log& log : logs) check_whole(log, sizes);
  const double held_us = std::chrono::duration<double, std::micro>(kHeldUp).count();
  CHECK(logs[2].times[0].total_us >= held_us);
  CHECK(at(logs[2].times[0], Spent::setup) >= held_us / 2);
  CHECK(at(logs[1].times[0], Spent::setup) + at(logs[1].times[0], Spent::other) ==
        Approx(logs[1].times[0].total_us));
}
