// Lanes over a remote fabric (remote_pair.hpp), and who sleeps at their ends.
#include <algorithm>
#include <cstring>

#include "lanes/doorbell.hpp"
#include "tests/lanes/remote_pair.hpp"

using namespace weft;
using namespace weft::test;

namespace {

// Whether this is entry number i: `length` bytes, all of them i.
bool is_entry(const Entry& entry, int i, std::size_t length) {
  EXPECT(entry.immediate == static_cast<std::uint64_t>(i) && entry.length == length);
  for (std::size_t k = 0; k < entry.length; ++k)
    EXPECT(entry.data[k] == static_cast<std::byte>(i & 0xff));
  return true;
}

// Accepts rank 0's lane and receives `count` entries of length(i) bytes, all of them i.
template <class Length>
bool receive_entries(transport::RemoteLanes& lanes, std::uint32_t ring_bytes, int count,
                     const Length& length) {
  ReceiveLane lane;
  EXPECT(accept(lanes, 0, ring_bytes, lane));
  Entry entry;
  for (int i = 0; i < count; ++i) {
    EXPECT(wait_for([&] {
      lanes.poll();
      return lane.peek(entry) || lane.ring.broken();
    }));
    EXPECT(!lane.ring.broken());
    EXPECT(is_entry(entry, i, length(i)));
    lane.ring.pop(entry.length);
    lane.return_credit(false);
  }
  return true;
}

// What it receives, as copies.
template <class Length>
bool send_entries(transport::RemoteLanes& lanes, SendLane& lane, int count, const Length& length) {
  for (int i = 0; i < count; ++i) {
    const std::vector<char> data(length(i), static_cast<char>(i));
    EXPECT(wait_for([&] {
      lanes.poll();
      return lane.send(1, static_cast<std::uint64_t>(i), data.data(), data.size());
    }));
  }
  return true;
}

// Rank 0 sends all entries by send(fabric, lane), rank 1 receives them as above.
template <class Length, class Send>
void pass_entries(std::uint32_t ring_bytes, int count, const Length& length, const Send& send) {
  with_pair(
      remote_settings(),
      [&](Fabrics& fabrics, Shared& shared) {
        transport::RemoteLanes& lanes = *fabrics.to(1)->remote();
        SendLane lane;
        EXPECT(connect(lanes, 1, lane, ring_bytes));
        EXPECT(send(lanes, lane));
        lanes.poll();
        return shared.reach(1);
      },
      [&](Fabrics& fabrics, Shared& shared) {
        EXPECT(receive_entries(*fabrics.to(0)->remote(), ring_bytes, count, length));
        shared.mark.store(1);
        return true;
      });
}

}  // namespace

TEST_CASE("a lane to a remote peer keeps order and content through many rounds", "[remote]") {
  constexpr std::uint32_t kRing = 16384;
  constexpr int kCount = 5000;
  const auto length = [](int i) { return static_cast<std::size_t>(i * 131 % 4000); };
  pass_entries(kRing, kCount, length, [&](transport::RemoteLanes& lanes, SendLane& lane) {
    return send_entries(lanes, lane, kCount, length);
  });
}

namespace {

// One side of messages to and fro: rounds of one, in which a ring that is read empty starts over,
// and now and then bursts of both at once, which go around it.
bool to_and_fro(Fabrics& fabrics, int peer) {
  constexpr std::uint32_t kRing = 16384;
  constexpr int kRounds = 3000, kBurst = 40;
  transport::RemoteLanes& lanes = *fabrics.to(peer)->remote();
  SendLane out;
  ReceiveLane in;
  EXPECT(connect(lanes, peer, out, kRing));
  EXPECT(accept(lanes, peer, kRing, in));
  const auto length = [](int i) { return static_cast<std::size_t>(i * 131 % 4000); };
  std::vector<char> data(4096);
  int sent = 0, received = 0;
  Entry entry;
  bool good = true;
  const auto step = [&](int send_up_to) {
    lanes.poll();
    std::memset(data.data(), sent & 0xff, data.size());
    if (sent < send_up_to &&
        out.send(1, static_cast<std::uint64_t>(sent), data.data(), length(sent)))
      ++sent;
    while (in.peek(entry)) {
      good = good && is_entry(entry, received, length(received));
      in.ring.pop(entry.length);
      in.return_credit(false);
      ++received;
    }
    good = good && !in.ring.broken();
  };
  for (int round = 0; round < kRounds; ++round) {
    const int goal = sent + (round % 100 == 99 ? kBurst : 1);
    // Rank 1 answers.
    EXPECT(wait_for([&] {
      step(peer == 1 || received >= goal || goal - sent > 1 ? goal : sent);
      return (sent == goal && received >= goal) || !good;
    }));
    EXPECT(good);
    // What it received last told this side that all before had been read.
    if (!lanes.writes() && peer == 1 && round % 100 > 1 && round % 100 < 99)
      EXPECT(out.ring.offset() == entry_bytes(length(sent - 1)));
  }
  return true;
}

}  // namespace

TEST_CASE("in both directions credit goes along, and an empty ring starts over", "[remote]") {
  with_pair(
      remote_settings(),
      [](Fabrics& fabrics, Shared& shared) {
        EXPECT(to_and_fro(fabrics, 1));
        shared.mark.fetch_add(1);
        return shared.reach(2);
      },
      [](Fabrics& fabrics, Shared& shared) {
        EXPECT(to_and_fro(fabrics, 0));
        shared.mark.fetch_add(1);
        return shared.reach(2);
      });
}

TEST_CASE("entries that may go later go together, in order, and also by themselves", "[remote]") {
  constexpr std::uint32_t kRing = 65536;
  constexpr int kCount = 10'000;
  const auto length = [](int i) {
    return static_cast<std::size_t>(i * 131 % (i % 50 == 0 ? 9000 : 300));
  };
  with_pair(
      remote_settings(),
      [&](Fabrics& fabrics, Shared& shared) {
        transport::RemoteLanes& lanes = *fabrics.to(1)->remote();
        SendLane lane;
        EXPECT(connect(lanes, 1, lane, kRing));
        std::vector<char> data(9000);
        bool kept = false;
        // From here on this rank polls no more.
        for (int i = 0; i < kCount; ++i) {
          std::memset(data.data(), i & 0xff, data.size());
          const bool later = i % 7 != 0;
          EXPECT(wait_for([&] {
            return lane.send(1, static_cast<std::uint64_t>(i), data.data(), length(i), later);
          }));
          if (i % 7 == 6) kept = lanes.push() || kept;
        }
        EXPECT(kept);
        return shared.reach(1);
      },
      [&](Fabrics& fabrics, Shared& shared) {
        EXPECT(receive_entries(*fabrics.to(0)->remote(), kRing, kCount, length));
        shared.mark.store(1);
        return true;
      });
}

TEST_CASE("a sleeper is woken by a remote peer, and sleeps in silence", "[remote]") {
  with_pair(
      remote_settings(),
      [](Fabrics& fabrics, Shared& shared) {
        transport::RemoteLanes& lanes = *fabrics.to(1)->remote();
        SendLane lane;
        EXPECT(connect(lanes, 1, lane, 65536));
        EXPECT(shared.reach(1));
        for (int i = 0; i < 5; ++i) {
          EXPECT(lane.send(1, 0, "hello", 5));
          EXPECT(shared.reach(2 + i));
        }
        return true;
      },
      [](Fabrics& fabrics, Shared& shared) {
        transport::RemoteLanes& lanes = *fabrics.to(0)->remote();
        ReceiveLane lane;
        ReceiveMemory memory;
        int peer = -1, channel = -1;
        EXPECT(wait_for([&] {
          lanes.poll();
          return lanes.accept(0, peer, channel, memory).ok() && peer == 0;
        }));
        lane.open(lanes, memory, 65536, 65536);
        auto& sleeping = fabrics.local().sleeping(0);
        for (int i = 0; i < 5; ++i) {
          Entry entry;
          const std::uint64_t limit = now_ns() + kDeadlineNs;
          for (bool first = true;;) {
            sleeping.store(1);
            heavy_fence();
            lanes.poll();
            if (lane.peek(entry)) break;
            fabrics.watcher()->arm(sleeping);
            if (std::exchange(first, false)) shared.mark.store(1 + i);
            futex_wait(&sleeping, 1, 10'000'000);
            EXPECT(now_ns() < limit);
          }
          lane.ring.pop(entry.length);
          if (i == 4) shared.mark.store(6);
        }
        return true;
      });
}

// Whoever polls rings for the others: they would look only when their nap ends.
TEST_CASE("threads at all doorbells are woken by what another has polled", "[remote]") {
  constexpr int kChannel = channel_number({1, 2, 3});  // client, writer, reader
  // As a waiting thread does it, only that it polls while it sleeps; false: it was left asleep.
  const auto is_woken = [](Fabrics& fabrics, int doorbell, const std::function<bool()>& done) {
    auto& sleeping = fabrics.local().sleeping(doorbell);
    for (;;) {
      const std::uint32_t armed = arm_doorbell(sleeping);
      if (done()) return true;
      if (!wait_for([&] {
            fabrics.remote().front()->poll();
            return sleeping.load() != armed;
          }))
        return false;
    }
  };
  with_pair(
      remote_settings(),
      [&](Fabrics& fabrics, Shared& shared) {
        transport::RemoteLanes& lanes = *fabrics.to(1)->remote();
        EXPECT(shared.reach(1));
        SendMemory lane;
        lane.ring_bytes = 65536;
        Status status;
        EXPECT(is_woken(fabrics, 2, [&] {
          status = lanes.connect(1, kChannel, lane);
          return status.code() != Code::again;
        }));
        EXPECT(status.ok());
        char byte = 0;
        Completion got;
        lanes.start_get(1, shared.memory, 0, &byte, 1, got);
        EXPECT(is_woken(fabrics, 2, [&] { return got.is_done(); }));
        EXPECT(got.code() == Code::ok);
        shared.mark.store(2);
        EXPECT(is_woken(fabrics, 2, [&] { return lanes.state(1) == PeerState::left; }));
        return shared.reach(3);
      },
      [&](Fabrics& fabrics, Shared& shared) {
        transport::RemoteLanes& lanes = *fabrics.to(0)->remote();
        const Lent lent(lanes, 4096, shared.memory);
        EXPECT(lent.is_good());
        shared.mark.store(1);
        EXPECT(is_woken(fabrics, 3, [&] { return lanes.connections().load() != 0; }));
        EXPECT(shared.reach(2));
        lanes.leave();
        shared.mark.store(3);
        return true;
      });
}
