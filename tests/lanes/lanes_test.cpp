// Lanes and operations of ranks (transport/lanes) over the loopback fabric: links that break or go
// silent, and members that lie, stop or leave in the middle. WEFT_TEST_FABRIC=loopback.
#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "tests/lanes/odd_member.hpp"
#include "tests/lanes/remote_pair.hpp"
#include "tests/support/loopback/loopback.hpp"

using namespace weft;
using namespace weft::test;
using fabric::loopback::Network;
using fabric::loopback::Options;

namespace {

constexpr std::uint32_t kRing = 16384;
const Options kMessagesOnly{.message_max = 2048, .puts = false, .gets = false, .atomics = false};

// What goes wrong in the network, until the end of a test.
struct Troubled {
  explicit Troubled(const Options& options) { Network::of_process()->set_options(options); }
  ~Troubled() {
    Network::of_process()->set_faults({});
    Network::of_process()->set_options({});
  }
  static void set(std::uint64_t seed, std::uint32_t delay_us, std::uint32_t cut_one_in) {
    Network::of_process()->set_faults({seed, delay_us, cut_one_in});
  }
};

// Two ranks that send each other entries, and get, put and count in each other's memory.
class Talk {
 public:
  static constexpr int kEntries = 2000, kRounds = 100;
  static constexpr std::size_t kWords = 3000;

  // at_half: called by rank 0 in the middle of it all.
  bool run(Fabrics& fabrics, int peer, bool counts_once, const std::function<void()>& at_half) {
    transport::RemoteLanes& lanes = *fabrics.to(peer)->remote();
    const auto self = static_cast<std::size_t>(1 - peer), other = static_cast<std::size_t>(peer);
    const Lent lent(lanes, 8 * kWords, memory_[self]);
    EXPECT(lent.is_good());
    ready_.fetch_add(1);
    EXPECT(wait_for([&] { return ready_.load() == 2; }));
    SendLane out;
    ReceiveLane in;
    EXPECT(connect(lanes, peer, out, kRing));
    EXPECT(accept(lanes, peer, kRing, in));
    std::mt19937 random(7);
    std::vector<char> data(4096);
    std::vector<std::uint64_t> put(kWords - 1), got(kWords - 1);
    std::uint64_t counted = 0, unknown = 0;
    Completion completion;
    enum { idle, putting, getting } doing = idle;
    int sent = 0, received = 0, round = 0;
    while (sent < kEntries || received < kEntries || round < kRounds) {
      bool good = true, moved = false;
      EXPECT(wait_for([&] {
        lanes.poll();
        std::memset(data.data(), sent & 0xff, data.size());
        if (sent < kEntries &&
            out.send(1, static_cast<std::uint64_t>(sent), data.data(), length(sent))) {
          ++sent;
          moved = true;
        }
        for (Entry entry; in.peek(entry); ++received, moved = true) {
          good = good && entry.immediate == static_cast<std::uint64_t>(received) &&
                 entry.length == length(received);
          for (std::size_t i = 0; good && i < entry.length; ++i)
            good = entry.data[i] == static_cast<std::byte>(received & 0xff);
          in.ring.pop(entry.length);
          in.return_credit(false);
        }
        return moved || !good || in.ring.broken() || round < kRounds;
      }));
      EXPECT(good && !in.ring.broken());
      if (self == 0 && received > kEntries / 2 && !std::exchange(was_half_, true)) at_half();
      if (doing != idle && !completion.is_done()) continue;
      if (doing != idle) EXPECT(completion.code() == Code::ok);
      if (doing == getting) {
        EXPECT(got == put);
        ++round;
        std::uint64_t previous = 0;
        const Code code = lanes.fetch_add(peer, memory_[other], 0, 1, previous);
        EXPECT(code == Code::ok || (code == Code::outcome_unknown && !counts_once));
        EXPECT(code != Code::ok || (previous >= counted && previous <= counted + unknown));
        ++(code == Code::ok ? counted : unknown);
      }
      if (round == kRounds) {
        doing = idle;
        continue;
      }
      if (doing != putting)
        for (std::uint64_t& word : put) word = random();
      doing = doing == putting ? getting : putting;
      completion.reset();
      if (doing == putting)
        lanes.start_put(peer, memory_[other], 8, put.data(), 8 * put.size(), completion);
      else
        lanes.start_get(peer, memory_[other], 8, got.data(), 8 * got.size(), completion);
    }
    std::uint64_t last = 0;
    EXPECT(lanes.get(peer, memory_[other], 0, &last, 8) == Code::ok);
    EXPECT(last >= counted && last <= counted + unknown);
    EXPECT(lanes.state(peer) == PeerState::alive);
    ended_.fetch_add(1);
    return wait_for([&] {
      lanes.poll();
      return ended_.load() == 2;
    });
  }

 private:
  static std::size_t length(int i) { return static_cast<std::size_t>(i * 131 % 4000); }

  std::array<MemoryName, 2> memory_{};
  std::atomic<int> ready_{0}, ended_{0};
  bool was_half_ = false;  // rank 0's
};

std::unique_ptr<OddMember> odd_member(const char* timeout_ms = "30000") {
  return std::make_unique<OddMember>(remote_settings(timeout_ms), "loopback",
                                     fabric::loopback::make_endpoint());
}

}  // namespace

TEST_CASE("links that break lose no entry and repeat none, and operations are whole") {
  const bool only_messages = GENERATE(false, true);
  const Troubled troubled(only_messages ? kMessagesOnly : Options{});
  Troubled::set(only_messages ? 3 : 4, 100, 400);
  Talk talk;
  with_pair(
      remote_settings(),
      [&](Fabrics& fabrics, Shared&) { return talk.run(fabrics, 1, only_messages, [] {}); },
      [&](Fabrics& fabrics, Shared&) { return talk.run(fabrics, 0, only_messages, [] {}); });
}

TEST_CASE("a link that is up and carries nothing any more is replaced, and nobody dies") {
  const bool only_messages = GENERATE(false, true);
  const Troubled troubled(only_messages ? kMessagesOnly : Options{});
  Talk talk;
  const auto stall = [] { Network::of_process()->stall(); };
  with_pair(
      remote_settings("10000"),
      [&](Fabrics& fabrics, Shared&) { return talk.run(fabrics, 1, only_messages, stall); },
      [&](Fabrics& fabrics, Shared&) { return talk.run(fabrics, 0, only_messages, [] {}); });
}

TEST_CASE("a put that is refused is refused piece by piece, also over the next link") {
  const Troubled troubled(kMessagesOnly);
  const auto member = odd_member();
  transport::AccessMessage put{};
  put.kind = transport::Kind::put;
  put.id = 5;
  const std::vector<std::byte> data(1024);
  for (int i = 0; i < 3; ++i) {
    member->open();
    for (std::uint64_t left : {8192, 7168}) {  // the link ends before the last
      put.range = {4711, 4096, left, left};
      member->say(put, data, true);
      const auto done = member->next<transport::DoneMessage>(transport::Kind::done);
      CHECK(done.id == 5);
      CHECK(done.code == static_cast<std::uint32_t>(Code::bad_argument));
    }
    member->close();
  }
}

TEST_CASE("who gives credit for what it has not got is lost") {
  const Troubled troubled(kMessagesOnly);
  const auto member = odd_member();
  transport::RemoteLanes& lanes = *member->lanes;
  member->open();
  SendMemory memory;
  memory.ring_bytes = kRing;
  REQUIRE(lanes.connect(1, 0, memory).code() == Code::again);
  const auto asked = member->next<transport::LaneOpenMessage>(transport::Kind::lane_open);
  transport::LaneAnswerMessage answer{};
  answer.kind = transport::Kind::lane_answer;
  answer.id = asked.id;
  answer.ring = 77;
  member->say(answer, {}, true);
  REQUIRE(member->poll_until([&] { return lanes.connect(1, 0, memory).ok(); }));
  SendLane lane;
  lane.open(lanes, memory, kRing, kRing);
  constexpr std::uint64_t kRings = 400;
  transport::CreditMessage credit{};
  credit.kind = transport::Kind::lane_credit;
  credit.id = asked.id;
  for (std::uint64_t i = 1; i <= kRings; ++i) {
    credit.word = i * kRing;
    member->say(credit);
  }
  REQUIRE(member->poll_until([&] { return memory.consumed->load() == kRings * kRing; }));
  Troubled::set(1, 2'000'000'000, 0);  // what is posted now stays where it is
  const std::vector<char> data(4000, 'x');
  for (std::uint64_t i = 0; i < kRings * 4 && lanes.state(1) == PeerState::alive; ++i)
    (void)lane.send(1, 0, data.data(), data.size());
  CHECK(lanes.state(1) == PeerState::dead);
}

TEST_CASE("what a member that has left was still asked for ends with its link") {
  const bool only_messages = GENERATE(false, true);
  const bool is_given_up = GENERATE(false, true);
  const Troubled troubled(only_messages ? kMessagesOnly : Options{});
  const auto member = odd_member();
  transport::RemoteLanes& lanes = *member->lanes;
  member->open();
  std::vector<char> here(4096, 'h'), there(4096, 't');
  fabric::Registration registration;
  REQUIRE(member->endpoint->register_memory(there.data(), there.size(), fabric::kRead, registration)
              .ok());
  const fabric::KeyParts key = fabric::parts_of(registration.key);
  const MemoryName memory{key.address, key.bytes, static_cast<std::uint32_t>(key.secret),
                          static_cast<std::uint32_t>(key.secret >> 32)};
  transport::ByeMessage bye{};
  bye.kind = transport::Kind::bye;
  member->say(bye, {}, true);
  Troubled::set(1, 2'000'000'000, 0);  // what is posted now stays where it is
  Completion got;
  lanes.start_get(1, memory, 0, here.data(), here.size(), got);
  REQUIRE(member->poll_until([&] { return lanes.state(1) == PeerState::left; }));
  CHECK_FALSE(got.is_done());
  if (is_given_up)
    lanes.disconnect(1);
  else
    member->close();
  REQUIRE(member->poll_until([&] { return got.is_done(); }));
  CHECK(got.code() == Code::peer_lost);
  Completion later;
  lanes.start_get(1, memory, 0, here.data(), here.size(), later);
  CHECK(later.is_done());
  CHECK(later.code() == Code::peer_lost);
  member->close();
  Troubled::set(1, 0, 0);
  for (int i = 0; i < 100; ++i) lanes.poll();
  CHECK(std::count(here.begin(), here.end(), 'h') == 4096);
  member->endpoint->deregister(registration);
}
