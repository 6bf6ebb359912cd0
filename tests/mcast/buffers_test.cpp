// Memory of receivers: each message needs its own until its on_complete, or the group fails and
// says which two messages, of which member, would have been mixed.
#include <functional>

#include "team.hpp"

using namespace weft;
using namespace weft::testing;

namespace {

constexpr std::size_t kBytes = 60'000;

// Two messages to two members with delivery=all, of which the last gives no memory before it is
// let: so the first message is under way when the other member is asked for memory of the second.
class UnderWay {
 public:
  using Give = std::function<void*(std::byte* memory, int message)>;

  UnderWay(std::uint64_t first_bytes, std::uint64_t second_bytes, Give give,
           const std::function<void(Group&, std::byte*)>& prepare = {})
      : memory_(4 * kBytes), data_(pattern(kBytes, 1)) {
    REQUIRE(team_.members[1]->node().register_memory(memory_.data(), memory_.size()).ok());
    for (int rank = 0; rank < 3; ++rank) {
      const auto place = static_cast<std::size_t>(rank);
      GroupSettings settings = team_.settings(1, rank, "chain", 4096);
      settings.delivery_all = true;
      GroupEvents events = inboxes_[place].events();
      if (rank == 1)
        events.on_incoming = [this, give](std::uint64_t) {
          void* memory = give(memory_.data(), num_given_);
          ++num_given_;
          return memory;
        };
      if (rank == 2)
        events.on_incoming = [this, usual = events.on_incoming](std::uint64_t bytes) {
          while (!may_come_) std::this_thread::yield();
          return usual(bytes);
        };
      groups_.push_back(
          std::make_unique<Group>(*team_.members[place], settings, std::move(events)));
    }
    if (prepare) prepare(*groups_[1], memory_.data());
    REQUIRE(groups_[0]->send(data_.data(), first_bytes).ok());
    REQUIRE(groups_[0]->send(data_.data(), second_bytes).ok());
  }

  void require_legal(int num_given) {
    const auto limit = std::chrono::steady_clock::now() + kDeadline;
    while (num_given_ < num_given && std::chrono::steady_clock::now() < limit)
      std::this_thread::yield();
    may_come_ = true;
    for (auto& group : groups_) {
      const Status status = group->close();
      INFO(status.text());
      REQUIRE(status.ok());
    }
    for (const Inbox& inbox : inboxes_) REQUIRE(inbox.complete.size() == 2);
    CHECK(inboxes_[1].complete == inboxes_[0].complete);
  }
  void require_refused(const std::string& shared_bytes) {
    REQUIRE(inboxes_[1].wait_for_failure());
    may_come_ = true;
    for (auto& group : groups_) {
      const Status status = group->close();
      INFO(status.text());
      CHECK(status == Code::bad_argument);
      const std::string wanted = "member 1 (" + team_.addresses[1] +
                                 ") gives message 1 memory of which message 0 has " + shared_bytes +
                                 " bytes until its on_complete";
      CHECK(status.text().find(wanted) != std::string::npos);
    }
    CHECK(inboxes_[1].complete.empty());
  }

 private:
  Team team_{kWays[0], 3};
  std::vector<std::byte> memory_, data_;
  Inbox inboxes_[3];
  std::atomic<bool> may_come_{false};
  std::atomic<int> num_given_{0};
  std::vector<std::unique_ptr<Group>> groups_;
  struct Let {  // at the end in any case, before the groups go
    std::atomic<bool>& may;
    ~Let() { may = true; }
  } let_{may_come_};
};

}  // namespace

TEST_CASE("one memory for two messages under way is refused, by member and messages") {
  const auto at = [](std::size_t first, std::size_t second) {
    return [=](std::byte* memory, int message) { return memory + (message == 0 ? first : second); };
  };
  UnderWay(kBytes, kBytes, at(0, 0)).require_refused("60000");
  UnderWay(kBytes, kBytes, at(0, kBytes - 1)).require_refused("1");
  UnderWay(kBytes, 20'000, at(0, 500)).require_refused("20000");
  UnderWay(20'000, kBytes, at(500, 0)).require_refused("20000");
  // Messages that are sent at once, too.
  UnderWay(100, 100, at(0, 0)).require_refused("100");
  UnderWay(kBytes, 100, at(0, 50)).require_refused("100");
}

TEST_CASE("memory of messages under way may lie side by side, and empty ones anywhere") {
  const auto at = [](std::size_t first, std::size_t second) {
    return [=](std::byte* memory, int message) { return memory + (message == 0 ? first : second); };
  };
  UnderWay(kBytes, kBytes, at(0, kBytes)).require_legal(2);
  UnderWay(kBytes, kBytes, at(kBytes, 0)).require_legal(2);
  UnderWay(100, 100, at(100, 0)).require_legal(2);
  UnderWay(kBytes, 0, at(0, 100)).require_legal(2);
  UnderWay(0, kBytes, at(100, 0)).require_legal(2);
  UnderWay(0, 0, at(0, 0)).require_legal(2);
}

TEST_CASE("posted memory is one message's, too") {
  const auto same = [](std::byte* memory, int) { return memory; };
  const auto post = [](Group& group, std::byte* memory) {
    REQUIRE(group.post(memory, kBytes).ok());
  };
  UnderWay(kBytes, kBytes, same, post).require_refused("60000");
  UnderWay(kBytes, 100, same, post).require_refused("100");
  // A message may be shorter than its memory, and has all of it.
  UnderWay(
      5'000, 100, [](std::byte* memory, int) { return memory + kBytes - 10; }, post)
      .require_refused("10");
  UnderWay(
      kBytes, kBytes, [](std::byte* memory, int) { return memory + kBytes; }, post)
      .require_legal(1);
  // A post that would be the second is refused, and the group lives on.
  UnderWay(
      kBytes, kBytes, [](std::byte* memory, int) { return memory + kBytes; },
      [&](Group& group, std::byte* memory) {
        post(group, memory);
        const Status status = group.post(memory, 7);
        INFO(status.text());
        CHECK(status == Code::bad_argument);
        CHECK(status.text().find("gives message 1 memory of which message 0 has 7 bytes") !=
              std::string::npos);
      })
      .require_legal(1);
}

// The root sends on once the receiver has the message before: that one's memory is free again.
TEST_CASE("memory is free for another message from its on_complete on") {
  constexpr std::size_t kMessages = 60;
  enum class By { asked, post_within, post_after };
  for (const By by : {By::asked, By::post_within, By::post_after})
    for (const std::size_t bytes : {std::size_t{200}, kBytes}) {
      INFO("way " << static_cast<int>(by) << ", " << bytes << " bytes");
      Team team(kWays[0], 2);
      void* memory = nullptr;
      REQUIRE(team.members[1]->node().allocate(kBytes, memory).ok());
      Inbox inboxes[2];
      Group* receiver = nullptr;
      std::atomic<int> num_refused{0};
      const auto post = [&] { num_refused += receiver->post(memory, kBytes).ok() ? 0 : 1; };
      GroupEvents events = inboxes[1].events();
      events.on_incoming = [&](std::uint64_t) { return memory; };
      if (by == By::post_within)
        events.on_complete = [&, usual = events.on_complete](void* data, std::uint64_t length) {
          post();
          usual(data, length);
        };
      Group root(*team.members[0], team.settings(1, 0, "pipeline", 4096), inboxes[0].events());
      Group other(*team.members[1], team.settings(1, 1, "pipeline", 4096), std::move(events));
      receiver = &other;
      if (by != By::asked) post();
      for (std::size_t i = 0; i < kMessages; ++i) {
        const auto data = pattern(bytes, i);
        REQUIRE(root.send(data.data(), data.size()).ok());
        REQUIRE(inboxes[1].wait_for(i + 1));
        REQUIRE(inboxes[0].wait_for(i + 1));
        REQUIRE(inboxes[1].complete[i] == data);
        if (by == By::post_after) post();
      }
      CHECK(num_refused == 0);
      CHECK(root.close().ok());
      CHECK(other.close().ok());
    }
}
