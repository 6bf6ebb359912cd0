// The contract of fabric.hpp over a remote fabric, WEFT_TEST_FABRIC in the environment (ofi unless
// set), between ranks that are threads of this process and are told not to share memory. The owner
// of memory never polls here: its watcher answers for it.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/wait.hpp"
#include "fabric/doorbell.hpp"
#include "fabric/ofi/endpoint.hpp"
#include "fabric/registry.hpp"
#include "tests/support/wrong_board.hpp"
#include "transport/lane.hpp"

namespace {

using namespace weft;

constexpr std::uint64_t kDeadlineNs = 20'000'000'000;

template <class F>
bool wait_for(F&& done) {
  for (const std::uint64_t limit = now_ns() + kDeadlineNs; !done(); std::this_thread::yield())
    if (now_ns() > limit) return false;
  return true;
}

// What two ranks of a test agree on.
struct Shared {
  std::atomic<int> mark{0};
  RemoteMemory memory{};
  bool reach(int value) {
    return wait_for([&] { return mark.load() >= value; });
  }
};

const std::string& fabric_name() {
  static const std::string name =
      getenv("WEFT_TEST_FABRIC") != nullptr ? getenv("WEFT_TEST_FABRIC") : "ofi";
  return name;
}
bool over_verbs() { return fabric_name() == "verbs"; }
const char* const kProvider = getenv("WEFT_TEST_OFI_PROVIDER");
// Atomics are the device's, whatever the processor does meanwhile.
const char* const kAtomics = getenv("WEFT_TEST_VERBS_ATOMICS");
bool by_device() { return kAtomics != nullptr && std::string(kAtomics) == "device"; }
// Such a provider ends the connection where an owner would only say no.
bool by_provider() { return !over_verbs() && kProvider != nullptr && !ofi::is_tcp(kProvider); }

// Some come and go with libfabric's version.
bool has_provider() {
  if (kProvider == nullptr) return true;
  Settings settings;
  ofi::Offers offers;
  return settings.set("OFI_PROVIDER", kProvider).ok() && offers.find(settings).ok();
}

Settings remote_settings(const char* timeout_ms = "30000") {
  Settings settings;
  REQUIRE(settings.set("FABRIC", fabric_name()).ok());
  REQUIRE(settings.set("OFI_INTERFACE", "lo").ok());
  if (kProvider != nullptr) REQUIRE(settings.set("OFI_PROVIDER", kProvider).ok());
  if (kAtomics != nullptr) REQUIRE(settings.set("VERBS_ATOMICS", kAtomics).ok());
  REQUIRE(settings.set("PEER_TIMEOUT_MS", timeout_ms).ok());
  return settings;
}

using Body = std::function<bool(Fabrics&, Shared&)>;

// Runs two ranks; each body returns whether all was as expected. Catch is for one thread only.
void with_pair(const Settings& settings, const Body& here, const Body& there,
               bool wrong_board = false) {
  if (!has_provider()) {
    WARN("skipped: libfabric has no " << kProvider);
    return;
  }
  auto boards = make_thread_boards(2);
  if (wrong_board) boards[1] = std::make_unique<WrongBoard>(std::move(boards[1]), fabric_name());
  Shared shared;
  bool good[2] = {false, false};
  std::vector<std::thread> ranks;
  for (int i = 0; i < 2; ++i)
    ranks.emplace_back([&, i, board = std::move(boards[static_cast<std::size_t>(i)])]() mutable {
      std::unique_ptr<Job> job;
      std::unique_ptr<Fabrics> fabrics;
      good[i] = Job::open(settings, std::move(board), job).ok() &&
                Fabrics::open(*job, fabrics).ok() && (i == 0 ? here : there)(*fabrics, shared);
      if (job && !job->board().fence(20'000)) good[i] = false;
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(good[0]);
  CHECK(good[1]);
}

// Connects, which a remote peer answers in its own time.
bool connect(Fabric& fabric, int peer, SendLane& lane, std::uint32_t bytes) {
  SendMemory memory;
  memory.ring_bytes = bytes;
  Status status;
  if (!wait_for([&] {
        fabric.poll();
        status = fabric.connect(peer, 0, memory);
        return status.code() != Code::again;
      }) ||
      !status)
    return false;
  lane.open(fabric, memory, memory.ring_bytes, memory.ring_bytes);
  return memory.ring_bytes == bytes;
}

}  // namespace

#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      return false;                                                           \
    }                                                                         \
  } while (false)

bool accept(Fabric& fabric, int from, std::uint32_t ring_bytes, ReceiveLane& lane) {
  ReceiveMemory memory;
  int peer = -1, channel = -1;
  EXPECT(wait_for([&] {
    fabric.poll();
    return fabric.accept(0, peer, channel, memory).ok() && peer == from;
  }));
  EXPECT(memory.ring_bytes == ring_bytes);
  lane.open(fabric, memory, ring_bytes, ring_bytes);
  return true;
}

// Whether this is entry number i: `length` bytes, all of them i.
bool is_entry(const Entry& entry, int i, std::size_t length) {
  EXPECT(entry.immediate == static_cast<std::uint64_t>(i) && entry.length == length);
  for (std::size_t k = 0; k < entry.length; ++k)
    EXPECT(entry.data[k] == static_cast<std::byte>(i & 0xff));
  return true;
}

// One look for entry number i.
constexpr auto look_by_count = [](Fabric& fabric, ReceiveLane& lane, int, Entry& entry) {
  fabric.poll();
  return lane.peek(entry);
};

// Accepts rank 0's lane and receives `count` entries of length(i) bytes, all of them i.
template <class Length, class Look = decltype(look_by_count)>
bool receive_entries(Fabric& fabric, std::uint32_t ring_bytes, int count, const Length& length,
                     const Look& look = look_by_count) {
  ReceiveLane lane;
  EXPECT(accept(fabric, 0, ring_bytes, lane));
  EXPECT((lane.seal != nullptr) == over_verbs());
  Entry entry;
  for (int i = 0; i < count; ++i) {
    EXPECT(wait_for([&] { return look(fabric, lane, i, entry) || lane.ring.broken(); }));
    EXPECT(!lane.ring.broken());
    EXPECT(is_entry(entry, i, length(i)));
    lane.ring.pop(entry.length);
    lane.return_credit(false);
  }
  return true;
}

// What it receives, as copies.
template <class Length>
bool send_entries(Fabric& fabric, SendLane& lane, int count, const Length& length) {
  for (int i = 0; i < count; ++i) {
    const std::vector<char> data(length(i), static_cast<char>(i));
    EXPECT(wait_for([&] {
      fabric.poll();
      return lane.send(1, static_cast<std::uint64_t>(i), data.data(), data.size());
    }));
  }
  return true;
}

// Rank 0 sends all entries by send(fabric, lane), rank 1 receives them as above.
template <class Length, class Send, class Look = decltype(look_by_count)>
void pass_entries(std::uint32_t ring_bytes, int count, const Length& length, const Send& send,
                  const Look& look = look_by_count) {
  with_pair(
      remote_settings(),
      [&](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        SendLane lane;
        EXPECT(connect(fabric, 1, lane, ring_bytes));
        EXPECT(send(fabric, lane));
        EXPECT(wait_for([&] {
          fabric.poll();
          return lane.flush();
        }));
        return shared.reach(1);
      },
      [&](Fabrics& fabrics, Shared& shared) {
        EXPECT(receive_entries(*fabrics.to(0), ring_bytes, count, length, look));
        shared.mark.store(1);
        return true;
      });
}

// The first: nothing has needed libfabric yet, and there are no threads.
TEST_CASE("what libfabric takes from the environment is there from the start", "[ofi]") {
  CHECK(getenv("FI_AV_REMOVE_CLEANUP") != nullptr);
}

TEST_CASE("allocated memory of a remote peer is read, written and counted in", "[ofi]") {
  with_pair(
      remote_settings(),
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        EXPECT(fabric.name() == fabric_name());
        EXPECT(shared.reach(1));
        const RemoteMemory memory = shared.memory;
        std::vector<std::uint64_t> words(512);
        EXPECT(fabric.get(1, memory, 0, words.data(), 4096) == Code::ok);
        EXPECT(words[0] == 7 && words[511] == 518);
        const std::uint64_t value = 99;
        EXPECT(fabric.put(1, memory, 8, &value, 8) == Code::ok);
        std::uint64_t before = 0;
        EXPECT(fabric.cas(1, memory, 8, 98, 5, before) == Code::ok && before == 99);
        EXPECT(fabric.cas(1, memory, 8, 99, 100, before) == Code::ok && before == 99);
        // Both sides add to the same word at once; nothing is lost.
        for (std::uint64_t i = 0; i < 2000; ++i)
          EXPECT(fabric.fetch_add(1, memory, 16, 1, before) == Code::ok);
        shared.mark.store(2);
        // Several at once, each in its place.
        Completion completions[8];
        std::vector<std::uint64_t> pieces(512);
        for (std::size_t i = 0; i < 8; ++i)
          fabric.start_get(1, memory, i * 512, pieces.data() + i * 64, 512, completions[i]);
        for (Completion& completion : completions) {
          EXPECT(wait_for([&] {
            fabric.poll();
            return completion.is_done();
          }));
          EXPECT(completion.code() == Code::ok);
        }
        EXPECT(pieces[511] == 518 && pieces[100] == 107);
        // Out of bounds, unaligned, shared by nobody.
        char byte = 0;
        EXPECT(fabric.get(1, memory, 4096, &byte, 1) == Code::bad_argument);
        EXPECT(fabric.get(1, memory, 1, words.data(), 4096) == Code::bad_argument);
        EXPECT(fabric.fetch_add(1, memory, 4, 1, before) == Code::bad_argument);
        EXPECT(fabric.get(1, {memory.address, 8, 0, 0}, 0, &byte, 1) == Code::bad_argument);
        shared.mark.store(3);
        return true;
      },
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(0);
        void* address = nullptr;
        EXPECT(fabric.allocate(4096, address, shared.memory).ok());
        auto* words = static_cast<std::uint64_t*>(address);
        for (std::uint64_t i = 0; i < 512; ++i) words[i] = i + 7;
        EXPECT(fabric.describe(words + 2, 8).region == shared.memory.region);
        shared.mark.store(1);
        // Devices may be atomic among themselves only.
        const int own = by_device() ? 0 : 2000;
        for (int i = 0; i < own; ++i) std::atomic_ref(words[2]).fetch_add(1);
        EXPECT(shared.reach(3));
        EXPECT(std::atomic_ref(words[2]).load() == 2009 + static_cast<std::uint64_t>(own));
        EXPECT(words[1] == 100);
        EXPECT(fabric.release(address).ok());
        EXPECT(!fabric.release(address).ok());
        return true;
      });
}

TEST_CASE("long puts arrive whole, several at once", "[ofi]") {
  constexpr std::size_t kBytes = 700'001;
  const auto byte = [](std::size_t i) { return static_cast<char>(i * 7 + i / 1000); };
  with_pair(
      remote_settings(),
      [&](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        std::vector<char> data(4 * kBytes);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = byte(i);
        EXPECT(shared.reach(1));
        Completion completions[4];
        for (std::size_t i = 0; i < 4; ++i)
          fabric.start_put(1, shared.memory, 3 + i * kBytes, &data[i * kBytes], kBytes,
                           completions[i]);
        for (Completion& completion : completions) {
          EXPECT(wait_for([&] {
            fabric.poll();
            return completion.is_done();
          }));
          EXPECT(completion.code() == Code::ok);
        }
        shared.mark.store(2);
        return shared.reach(3);
      },
      [&](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(0);
        void* address = nullptr;
        EXPECT(fabric.allocate(4 * kBytes + 6, address, shared.memory).ok());
        shared.mark.store(1);
        EXPECT(shared.reach(2));
        const char* data = static_cast<const char*>(address);
        for (std::size_t i = 0; i < 4 * kBytes; ++i) EXPECT(data[3 + i] == byte(i));
        for (const std::size_t i : {0, 1, 2}) EXPECT(data[i] == 0 && data[4 * kBytes + 3 + i] == 0);
        EXPECT(fabric.release(address).ok());
        shared.mark.store(3);
        return true;
      });
}

TEST_CASE("memory may go away while a peer reads and writes it, and the two go on", "[ofi]") {
  if (by_provider()) return;
  constexpr int kRounds = 30;
  constexpr std::size_t kBytes = 8 << 20;
  with_pair(
      remote_settings(),
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        std::vector<char> read(kBytes);
        const std::vector<char> written(kBytes, 'w');
        for (int round = 0; round < kRounds; ++round) {
          EXPECT(shared.reach(2 * round + 1));
          const RemoteMemory memory = shared.memory;
          char first = 0;
          EXPECT(fabric.get(1, memory, 0, &first, 1) == Code::ok);
          EXPECT(first == 'x');
          Completion got, put;
          fabric.start_get(1, memory, 0, read.data(), kBytes, got);
          if (round % 2 != 0) fabric.start_put(1, memory, 0, written.data(), kBytes, put);
          shared.mark.store(2 * round + 2);
          EXPECT(wait_for([&] {
            fabric.poll();
            return got.is_done() && (round % 2 == 0 || put.is_done());
          }));
          EXPECT(got.code() == Code::ok || got.code() == Code::bad_argument);
          if (round % 2 != 0) EXPECT(put.code() == Code::ok || put.code() == Code::bad_argument);
        }
        return shared.reach(2 * kRounds + 1);
      },
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(0);
        for (int round = 0; round < kRounds; ++round) {
          void* address = nullptr;
          EXPECT(fabric.allocate(kBytes, address, shared.memory).ok());
          std::memset(address, 'x', kBytes);
          shared.mark.store(2 * round + 1);
          EXPECT(shared.reach(2 * round + 2));
          // The request may be here by now; then some of it is on its way.
          for (int i = 0; i < round * 4; ++i) fabric.poll();
          EXPECT(fabric.release(address).ok());  // unmaps it
        }
        shared.mark.store(2 * kRounds + 1);
        return true;
      });
}

// Keys were counted up and mixed by splitmix64, which can be undone.
TEST_CASE("a key does not tell the next one", "[ofi]") {
  if (over_verbs()) return;
  const auto mix = [](std::uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  };
  const auto unmix = [](std::uint64_t z) {
    z = (z ^ z >> 31 ^ z >> 62) * 0x319642b2d24d8ec3u;
    z = (z ^ z >> 27 ^ z >> 54) * 0x96de1b173f119089u;
    return z ^ z >> 30 ^ z >> 60;
  };
  REQUIRE(unmix(mix(4711)) == 4711);
  const Body body = [&](Fabrics& fabrics, Shared&) {
    std::uint64_t keys[2];
    for (std::uint64_t& key : keys) {
      void* address = nullptr;
      RemoteMemory memory{};
      EXPECT(fabrics.remote().front()->allocate(4096, address, memory).ok());
      key = std::uint64_t{memory.extra} << 32 | memory.region;
    }
    EXPECT(mix(unmix(keys[0]) + 0x9e3779b97f4a7c15u) != keys[1]);
    return true;
  };
  with_pair(remote_settings(), body, body);
}

TEST_CASE("the owner refuses what is outside of what it shares", "[ofi]") {
  const int what = GENERATE(0, 1, 2);  // a wrong key, too far, no longer shared
  with_pair(
      remote_settings("5000"),
      [what](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        EXPECT(shared.reach(1));
        RemoteMemory memory = shared.memory;
        char bytes[64] = {};
        EXPECT(fabric.get(1, memory, 0, bytes, sizeof bytes) == Code::ok);
        EXPECT(bytes[0] == 'x');
        shared.mark.store(2);
        EXPECT(shared.reach(3));
        if (what == 0) memory.extra ^= 0x1000;
        if (what == 1) memory.bytes += 4096, memory.address += 4096;
        std::memset(bytes, 0, sizeof bytes);
        const Code got = fabric.get(1, memory, 0, bytes, sizeof bytes);
        EXPECT(got != Code::ok);
        EXPECT(bytes[0] == 0);
        std::memset(bytes, 'y', sizeof bytes);
        const Code put = fabric.put(1, memory, 0, bytes, sizeof bytes);
        EXPECT(put != Code::ok);
        if (!by_provider()) {
          // The owner says so, which harms nothing else. Also in the middle of a long one.
          EXPECT(got == Code::bad_argument && put == Code::bad_argument);
          const std::vector<char> large(1 << 20, 'y');
          memory.bytes = large.size();
          EXPECT(fabric.put(1, memory, 0, large.data(), large.size()) == Code::bad_argument);
          if (what == 1) {
            memory = shared.memory;
            memory.bytes = large.size();
            EXPECT(fabric.put(1, memory, 0, large.data(), large.size()) == Code::bad_argument);
          }
          if (what != 2) {
            EXPECT(fabric.get(1, shared.memory, 0, bytes, sizeof bytes) == Code::ok);
            EXPECT(bytes[0] == 'x' && bytes[63] == 'x');
          }
        }
        shared.mark.store(4);
        return true;
      },
      [what](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(0);
        static char bytes[8192];
        std::memset(bytes, 'x', sizeof bytes);
        EXPECT(fabric.share(bytes, 4096, shared.memory).ok());
        shared.mark.store(1);
        EXPECT(shared.reach(2));
        if (what == 2) EXPECT(fabric.unshare(shared.memory).ok());
        shared.mark.store(3);
        EXPECT(shared.reach(4));
        EXPECT(std::count(std::begin(bytes), std::end(bytes), 'x') == sizeof bytes);
        if (what != 2) EXPECT(fabric.unshare(shared.memory).ok());
        return true;
      });
}

// A peer that wrote there would end the owner with SIGSEGV, or change a message under way.
TEST_CASE("the owner lets nobody write what is for reading only", "[ofi]") {
  if (over_verbs()) return;
  // Shared and all of it mapped for reading only, shared and the last page so, one message's.
  const int what = GENERATE(0, 1, 2);
  constexpr std::size_t kPage = 4096;
  with_pair(
      remote_settings("5000"),
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        EXPECT(shared.reach(1));
        std::vector<char> bytes(3 * kPage);
        EXPECT(fabric.get(1, shared.memory, 0, bytes.data(), bytes.size()) == Code::ok);
        EXPECT(std::count(bytes.begin(), bytes.end(), 'x') == 3 * kPage);
        const Code put = fabric.put(1, shared.memory, 2 * kPage, bytes.data(), 8);
        std::uint64_t before = 0;
        const Code added = fabric.fetch_add(1, shared.memory, 2 * kPage, 1, before);
        const Code swapped = fabric.cas(1, shared.memory, 2 * kPage, 0, 1, before);
        // A provider ends the connection instead.
        for (const Code code : {put, added, swapped})
          EXPECT(code == Code::bad_argument || (by_provider() && code == Code::peer_lost));
        shared.mark.store(2);
        return true;
      },
      [what](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(0);
        void* address =
            mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(address != MAP_FAILED);
        auto* bytes = static_cast<char*>(address);
        std::memset(bytes, 'x', 3 * kPage);
        if (what == 0) EXPECT(mprotect(bytes, 3 * kPage, PROT_READ) == 0);
        if (what == 1) EXPECT(mprotect(bytes + 2 * kPage, kPage, PROT_READ) == 0);
        EXPECT((what == 2 ? fabric.share_once(bytes, 3 * kPage, shared.memory)
                          : fabric.share(bytes, 3 * kPage, shared.memory))
                   .ok());
        shared.mark.store(1);
        EXPECT(shared.reach(2));
        EXPECT(std::count(bytes, bytes + 3 * kPage, 'x') == 3 * kPage);
        EXPECT(fabric.unshare(shared.memory).ok());
        return munmap(address, 3 * kPage) == 0;
      });
}

TEST_CASE("a lane to a remote peer keeps order and content through many rounds", "[ofi]") {
  constexpr std::uint32_t kRing = 16384;
  constexpr int kCount = 5000;
  const auto length = [](int i) { return static_cast<std::size_t>(i * 131 % 4000); };
  pass_entries(kRing, kCount, length, [&](Fabric& fabric, SendLane& lane) {
    return send_entries(fabric, lane, kCount, length);
  });
}

namespace {

// One side of messages to and fro: rounds of one, in which a ring that is read empty starts over,
// and now and then bursts of both at once, which go around it.
bool to_and_fro(Fabrics& fabrics, int peer) {
  constexpr std::uint32_t kRing = 16384;
  constexpr int kRounds = 3000, kBurst = 40;
  Fabric& fabric = *fabrics.to(peer);
  SendLane out;
  ReceiveLane in;
  EXPECT(connect(fabric, peer, out, kRing));
  EXPECT(accept(fabric, peer, kRing, in));
  const auto length = [](int i) { return static_cast<std::size_t>(i * 131 % 4000); };
  std::vector<char> data(4096);
  int sent = 0, received = 0;
  Entry entry;
  bool good = true;
  const auto step = [&](int send_up_to) {
    fabric.poll();
    if (!out.flushed()) out.flush();
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
    if (peer == 1 && out.can_restart && round % 100 > 1 && round % 100 < 99)
      EXPECT(out.ring.offset() == entry_bytes(length(sent - 1)));
  }
  return true;
}

}  // namespace

TEST_CASE("in both directions credit goes along, and an empty ring starts over", "[ofi]") {
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

TEST_CASE("entries are taken from where they are, in order with the others", "[ofi]") {
  if (over_verbs()) return;
  constexpr std::uint32_t kRing = 65536;
  constexpr int kCount = 2000;
  const auto length = [](int i) { return 1 + static_cast<std::size_t>(i * 977 % 16'000); };
  // Each buffer stays until it is done, and is overwritten then; the last ones until all is over.
  std::vector<std::byte> buffers[4];
  Completion done[4];
  for (auto& buffer : buffers) buffer.resize(16'000);
  for (auto& one : done) one.set(Code::ok);
  pass_entries(kRing, kCount, length, [&](Fabric& fabric, SendLane& lane) {
    for (int i = 0; i < kCount; ++i) {
      auto& buffer = buffers[i % 4];
      Completion& mine = done[i % 4];
      EXPECT(wait_for([&] {
        fabric.poll();
        if (!lane.flushed()) lane.flush();
        return mine.is_done();
      }));
      EXPECT(mine.code() == Code::ok);
      std::fill(buffer.begin(), buffer.end(), static_cast<std::byte>(i & 0xff));
      const std::span<const std::byte> all(buffer.data(), length(i));
      const bool in_place = i % 3 != 0 && all.size() > 8;
      if (in_place) mine.reset();
      EXPECT(wait_for([&] {
        fabric.poll();
        if (!in_place) return lane.send(1, static_cast<std::uint64_t>(i), all.data(), all.size());
        return lane.send_in_place(1, static_cast<std::uint64_t>(i), all.first(8), all.subspan(8),
                                  &mine);
      }));
    }
    return true;
  });
}

TEST_CASE("entries that may go later go together, in order, and also by themselves", "[ofi]") {
  constexpr std::uint32_t kRing = 65536;
  constexpr int kCount = 10'000;
  const auto length = [](int i) {
    return static_cast<std::size_t>(i * 131 % (i % 50 == 0 ? 9000 : 300));
  };
  with_pair(
      remote_settings(),
      [&](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        SendLane lane;
        EXPECT(connect(fabric, 1, lane, kRing));
        std::vector<char> data(9000);
        bool kept = false;
        // From here on this rank polls no more.
        for (int i = 0; i < kCount; ++i) {
          std::memset(data.data(), i & 0xff, data.size());
          const bool later = i % 7 != 0;
          EXPECT(wait_for([&] {
            if (!lane.flushed()) lane.flush();
            return lane.send(1, static_cast<std::uint64_t>(i), data.data(), length(i), false,
                             later);
          }));
          if (i % 7 == 6) kept = fabric.push() || kept;
        }
        EXPECT(wait_for([&] { return lane.flush(); }));
        // Endpoints that write the ring themselves.
        EXPECT(kept == lane.can_restart);
        return shared.reach(1);
      },
      [&](Fabrics& fabrics, Shared& shared) {
        EXPECT(receive_entries(*fabrics.to(0), kRing, kCount, length));
        shared.mark.store(1);
        return true;
      });
}

TEST_CASE("over RDMA devices short entries are read before they are counted", "[ofi]") {
  constexpr std::uint32_t kRing = 65536;
  constexpr int kShort = 25, kCount = 200;
  const auto length = [](int i) {
    return static_cast<std::size_t>(i < kShort ? i * 7 % (Seal::kMaxLength + 1) : i * 31 % 100);
  };
  pass_entries(
      kRing, kCount, length,
      [&](Fabric& fabric, SendLane& lane) { return send_entries(fabric, lane, kCount, length); },
      // The first without a poll, then some of both.
      [](Fabric& fabric, ReceiveLane& lane, int i, Entry& entry) {
        if (lane.seal != nullptr && i < kShort) return lane.peek_sealed(entry);
        if (lane.seal != nullptr && i % 2 != 0 && lane.peek_sealed(entry)) return true;
        return look_by_count(fabric, lane, i, entry);
      });
}

TEST_CASE("what is taken from where it is ends with the peer", "[ofi]") {
  if (over_verbs()) return;
  with_pair(
      remote_settings(),
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        SendLane lane;
        EXPECT(connect(fabric, 1, lane, 2u << 20));
        fabric.disconnect(1);
        const std::vector<std::byte> data(100'000);
        Completion done;
        EXPECT(lane.send_in_place(1, 0, {}, data, &done));
        EXPECT(done.is_done() && done.code() == Code::peer_lost);
        shared.mark.store(1);
        return true;
      },
      [](Fabrics&, Shared& shared) { return shared.reach(1); });
}

// Whoever waited for it may have other things there by then.
TEST_CASE("nothing is written to the buffer of a get that has ended with its peer", "[ofi]") {
  constexpr std::size_t kBytes = 4 << 20;
  with_pair(
      remote_settings(),
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        EXPECT(shared.reach(1));
        char first = 0;
        EXPECT(fabric.get(1, shared.memory, 0, &first, 1) == Code::ok);
        EXPECT(first == 'x');
        std::vector<std::vector<char>> buffers(8, std::vector<char>(kBytes));
        Completion completions[8];
        for (std::size_t i = 0; i < 8; ++i)
          fabric.start_get(1, shared.memory, 0, buffers[i].data(), kBytes, completions[i]);
        fabric.disconnect(1);
        for (std::size_t i = 0; i < 8; ++i) {
          EXPECT(completions[i].is_done());
          std::fill(buffers[i].begin(), buffers[i].end(), 'z');
        }
        shared.mark.store(2);
        EXPECT(shared.reach(3));
        for (const std::uint64_t limit = now_ns() + 300'000'000; now_ns() < limit;) fabric.poll();
        for (const auto& buffer : buffers)
          EXPECT(std::count(buffer.begin(), buffer.end(), 'z') == kBytes);
        return true;
      },
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(0);
        void* address = nullptr;
        EXPECT(fabric.allocate(kBytes, address, shared.memory).ok());
        std::memset(address, 'x', kBytes);
        shared.mark.store(1);
        EXPECT(shared.reach(2));
        for (const std::uint64_t limit = now_ns() + 100'000'000; now_ns() < limit;) fabric.poll();
        shared.mark.store(3);
        return true;
      });
}

TEST_CASE("a sleeper is woken by a remote peer, and sleeps in silence", "[ofi]") {
  with_pair(
      remote_settings(),
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        SendLane lane;
        EXPECT(connect(fabric, 1, lane, 65536));
        EXPECT(shared.reach(1));
        for (int i = 0; i < 5; ++i) {
          EXPECT(lane.send(1, 0, "hello", 5));
          EXPECT(shared.reach(2 + i));
        }
        return true;
      },
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(0);
        ReceiveLane lane;
        ReceiveMemory memory;
        int peer = -1, channel = -1;
        EXPECT(wait_for([&] {
          fabric.poll();
          return fabric.accept(0, peer, channel, memory).ok() && peer == 0;
        }));
        lane.open(fabric, memory, 65536, 65536);
        auto& sleeping = fabric.sleeping(0);
        for (int i = 0; i < 5; ++i) {
          Entry entry;
          const std::uint64_t start = now_ns();
          for (bool first = true;;) {
            sleeping.store(1);
            heavy_fence();
            fabric.poll();
            if (lane.peek(entry)) break;
            fabrics.watcher()->arm(sleeping);
            if (std::exchange(first, false)) shared.mark.store(1 + i);
            futex_wait(&sleeping, 1, 10'000'000);
            EXPECT(now_ns() - start < 8'000'000'000);
          }
          lane.ring.pop(entry.length);
          if (i == 4) shared.mark.store(6);
        }
        return true;
      });
}

// Whoever polls rings for the others: they would look only when their nap ends.
TEST_CASE("threads at all doorbells are woken by what another has polled", "[ofi]") {
  constexpr int kChannel = channel_number({1, 2, 3});  // client, writer, reader
  // As a waiting thread does it, only that it polls while it sleeps; false: it was left asleep.
  const auto is_woken = [](Fabric& fabric, int doorbell, const std::function<bool()>& done) {
    for (;;) {
      const std::uint32_t armed = arm_doorbell(fabric.sleeping(doorbell));
      if (done()) return true;
      if (!wait_for([&] {
            fabric.poll();
            return fabric.sleeping(doorbell).load() != armed;
          }))
        return false;
    }
  };
  with_pair(
      remote_settings(),
      [&](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        EXPECT(shared.reach(1));
        SendMemory lane;
        lane.ring_bytes = 65536;
        Status status;
        EXPECT(is_woken(fabric, 2, [&] {
          status = fabric.connect(1, kChannel, lane);
          return status.code() != Code::again;
        }));
        EXPECT(status.ok());
        char byte = 0;
        Completion got;
        fabric.start_get(1, shared.memory, 0, &byte, 1, got);
        EXPECT(is_woken(fabric, 2, [&] { return got.is_done(); }));
        EXPECT(got.code() == Code::ok);
        shared.mark.store(2);
        EXPECT(is_woken(fabric, 2, [&] { return fabric.state(1) == PeerState::left; }));
        return shared.reach(3);
      },
      [&](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(0);
        void* address = nullptr;
        EXPECT(fabric.allocate(4096, address, shared.memory).ok());
        shared.mark.store(1);
        EXPECT(is_woken(fabric, 3, [&] { return fabric.connections().load() != 0; }));
        EXPECT(shared.reach(2));
        fabric.leave();
        shared.mark.store(3);
        return true;
      });
}

TEST_CASE("what peers may reach stays this process's when it forks", "[ofi]") {
  with_pair(
      remote_settings(),
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(1);
        EXPECT(shared.reach(1));
        // The device knows the memory of both sides before the fork.
        std::vector<char> bytes(8192);
        EXPECT(fabric.get(1, shared.memory, 0, bytes.data(), bytes.size()) == Code::ok);
        shared.mark.store(2);
        EXPECT(shared.reach(3));
        EXPECT(fabric.get(1, shared.memory, 0, bytes.data(), bytes.size()) == Code::ok);
        EXPECT(std::count(bytes.begin(), bytes.end(), 'n') == 8192);
        std::fill(bytes.begin(), bytes.end(), 'p');
        EXPECT(fabric.put(1, shared.memory, 0, bytes.data(), bytes.size()) == Code::ok);
        shared.mark.store(4);
        return shared.reach(5);
      },
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(0);
        std::vector<char> bytes(8192, 'b');
        EXPECT(fabric.share(bytes.data(), bytes.size(), shared.memory).ok());
        shared.mark.store(1);
        EXPECT(shared.reach(2));
        int ends[2];
        EXPECT(pipe(ends) == 0);
        const pid_t child = fork();
        if (child == 0) {
          // Has the same pages until this process has done with them, or ends.
          close(ends[1]);
          char byte = 0;
          _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
        }
        std::fill(bytes.begin(), bytes.end(), 'n');
        shared.mark.store(3);
        EXPECT(shared.reach(4));
        EXPECT(std::count(bytes.begin(), bytes.end(), 'p') == 8192);
        close(ends[0]);
        close(ends[1]);
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        EXPECT(fabric.unshare(shared.memory).ok());
        shared.mark.store(5);
        return true;
      });
}

TEST_CASE("a stranger's request is refused, and the stranger hears of it in time", "[ofi]") {
  with_pair(
      remote_settings("1000"),
      [](Fabrics& fabrics, Shared& shared) {
        // Its watcher answers nothing: the message does not carry this job's secret.
        EXPECT(shared.reach(1));
        return fabrics.to(1)->connections().load() == 0;
      },
      [](Fabrics& fabrics, Shared& shared) {
        Fabric& fabric = *fabrics.to(0);
        SendMemory memory;
        Status status;
        const std::uint64_t start = now_ns();
        EXPECT(wait_for([&] {
          fabric.poll();
          status = fabric.connect(0, 0, memory);
          return status.code() != Code::again;
        }));
        shared.mark.store(1);
        EXPECT(status.code() == Code::timed_out || status.code() == Code::peer_lost);
        EXPECT(status.text().find("rank 0") != std::string::npos);
        EXPECT(now_ns() - start < 3'000'000'000);
        return true;
      },
      true);
}

TEST_CASE("without a fabric in common both lists are told", "[ofi]") {
  Settings settings;
  REQUIRE(settings.set("FABRIC", "verbs").ok());
  with_pair(
      settings,
      [](Fabrics& fabrics, Shared&) {
        if (fabrics.to(1) != nullptr) return true;  // this machine has a device
        const std::string text = fabrics.explain(1);
        EXPECT(text.find("not ofi (WEFT_FABRIC)") != std::string::npos);
        EXPECT(text.find("rank 0") != std::string::npos);
        EXPECT(text.find("rank 1") != std::string::npos);
        return true;
      },
      [](Fabrics&, Shared&) { return true; });
  REQUIRE(settings.set("FABRIC", "shm,tin cans").ok());
  CHECK(check_fabric_setting(settings).code() == Code::bad_setting);
}
