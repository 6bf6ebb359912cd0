// The contract of lanes.hpp inside a host, between this process and children of it.
#include "lanes/lanes.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/wait.hpp"
#include "job/boards.hpp"
#include "lanes/mapped/arena.hpp"
#include "lanes/mapped/host_lanes.hpp"
#include "lanes/mapped/region.hpp"

namespace {

using namespace weft;

constexpr std::uint64_t kDeadlineNs = 10'000'000'000;

// A board for forked processes: each puts a few short values into memory that all share.
struct Shared {
  std::atomic<int> arrived[16];
  std::atomic<int> mark;  // for the tests' own use
  MemoryName memory;
  struct {
    char key[64];
    char value[512];
  } values[2][8];
  std::atomic<int> num_values[2];
};

class ForkBoard final : public Board {
 public:
  ForkBoard(Shared& shared, int rank) : shared_(shared), rank_(rank) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return 2; }
  std::string_view launcher() const noexcept override { return "fork"; }
  Status put(std::string_view key, std::string_view value) override {
    auto& slot = shared_.values[rank_][shared_.num_values[rank_].load()];
    if (key.size() >= sizeof slot.key || value.size() >= sizeof slot.value) return Code::no_memory;
    std::memcpy(slot.key, key.data(), key.size());
    std::memcpy(slot.value, value.data(), value.size());
    shared_.num_values[rank_].fetch_add(1);
    return {};
  }
  Status fence(int) override {
    auto& arrived = shared_.arrived[num_fences_++];
    arrived.fetch_add(1);
    for (const std::uint64_t limit = now_ns() + kDeadlineNs; arrived.load() < 2;)
      if (now_ns() > limit) return Code::timed_out;
    return {};
  }
  Status get(int rank, std::string_view key, std::string& value) override {
    for (int i = 0; i < shared_.num_values[rank].load(); ++i)
      if (key == shared_.values[rank][i].key) {
        value = shared_.values[rank][i].value;
        return {};
      }
    return Code::not_found;
  }
  void abort(int, std::string_view) override {}
  Status close() override { return {}; }

 private:
  Shared& shared_;
  int rank_;
  int num_fences_ = 0;
};

bool wait_for(const std::function<bool()>& done) {
  for (const std::uint64_t limit = now_ns() + kDeadlineNs; !done();)
    if (now_ns() > limit) return false;
  return true;
}

// Two processes: rank 0 runs `here` with the fabric, rank 1 `there`, which returns its exit status.
void with_pair(const std::function<void(HostLanes&, Shared&, pid_t)>& here,
               const std::function<int(HostLanes&, Shared&)>& there, Settings settings = {}) {
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(shared != MAP_FAILED);
  const auto open = [&](int rank, std::unique_ptr<Members>& job,
                        std::unique_ptr<HostLanes>& lanes) {
    if (Status status = Members::open(settings, std::make_unique<ForkBoard>(*shared, rank), job);
        !status)
      return status;
    return make_host_lanes(*job, lanes);
  };
  const pid_t child = fork();
  if (child == 0) {
    std::unique_ptr<Members> job;
    std::unique_ptr<HostLanes> lanes;
    if (!open(1, job, lanes)) _exit(90);
    _exit(there(*lanes, *shared));
  }
  std::unique_ptr<Members> job;
  std::unique_ptr<HostLanes> lanes;
  const Status status = open(0, job, lanes);
  INFO(status.text());
  REQUIRE(status.ok());
  here(*lanes, *shared, child);
  int exit_status = 0;
  waitpid(child, &exit_status, 0);
  if (WIFEXITED(exit_status)) CHECK(WEXITSTATUS(exit_status) == 0);
  lanes.reset();
  munmap(shared, sizeof(Shared));
}

}  // namespace

TEST_CASE("allocated memory of a peer is read, written and counted in", "[fabric]") {
  with_pair(
      [](HostLanes& lanes, Shared& shared, pid_t) {
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        const MemoryName memory = shared.memory;
        REQUIRE(memory.region != 0);
        std::vector<std::uint64_t> words(512);
        REQUIRE(lanes.get(1, memory, 0, words.data(), 4096) == Code::ok);
        CHECK(words[0] == 7);
        CHECK(words[511] == 518);
        const std::uint64_t value = 99;
        REQUIRE(lanes.put(1, memory, 8, &value, 8) == Code::ok);
        std::uint64_t before = 0;
        REQUIRE(lanes.cas(1, memory, 8, 98, 5, before) == Code::ok);
        CHECK(before == 99);
        REQUIRE(lanes.cas(1, memory, 8, 99, 100, before) == Code::ok);
        // Both sides add to the same word at once; nothing is lost.
        for (int i = 0; i < 20000; ++i)
          REQUIRE(lanes.fetch_add(1, memory, 16, 1, before) == Code::ok);
        REQUIRE(wait_for([&] { return shared.mark.load() == 2; }));
        REQUIRE(lanes.get(1, memory, 8, words.data(), 16) == Code::ok);
        CHECK(words[0] == 100);
        CHECK(words[1] == 40009);

        // Out of bounds, unaligned, unknown.
        char byte = 0;
        CHECK(lanes.get(1, memory, 4096, &byte, 1) == Code::bad_argument);
        CHECK(lanes.get(1, memory, 1, words.data(), 4096) == Code::bad_argument);
        CHECK(lanes.fetch_add(1, memory, 4, 1, before) == Code::bad_argument);
        MemoryName wrong = memory;
        wrong.bytes = 1 << 20;
        CHECK(lanes.get(1, wrong, 8192, &byte, 1) == Code::bad_argument);
        wrong = memory;
        wrong.address -= 64;
        CHECK(lanes.get(1, wrong, 0, &byte, 1) == Code::bad_argument);
        wrong = memory;
        wrong.region ^= 0x10000;
        CHECK(lanes.get(1, wrong, 0, &byte, 1) != Code::ok);
        wrong.region = 1 << 16 | 0;  // a descriptor that is no region
        CHECK(lanes.get(1, wrong, 0, &byte, 1) != Code::ok);

        shared.mark.store(3);
        REQUIRE(wait_for([&] { return shared.mark.load() == 4; }));
        CHECK(lanes.get(1, memory, 0, &byte, 1) == Code::bad_argument);  // released
        shared.mark.store(5);
      },
      [](HostLanes& lanes, Shared& shared) {
        void* address = nullptr;
        MemoryName memory;
        if (!lanes.allocate(4096, address, memory)) return 91;
        auto* words = static_cast<std::uint64_t*>(address);
        for (std::uint64_t i = 0; i < 512; ++i) words[i] = i + 7;
        shared.memory = memory;
        shared.mark.store(1);
        for (int i = 0; i < 20000; ++i) std::atomic_ref(words[2]).fetch_add(1);
        // 9 + 20000 of ours + 20000 of theirs.
        if (!wait_for([&] { return std::atomic_ref(words[2]).load() == 40009; })) return 92;
        shared.mark.store(2);
        if (!wait_for([&] { return shared.mark.load() == 3; })) return 93;
        if (!lanes.release(address)) return 94;
        if (lanes.release(address).ok()) return 95;
        shared.mark.store(4);
        return wait_for([&] { return shared.mark.load() == 5; }) ? 0 : 96;
      });
}

TEST_CASE("any memory of a peer can be copied, where the kernel allows it", "[fabric]") {
  const bool direct = GENERATE(true, false);
  Settings settings;
  REQUIRE(settings.set("DIRECT_COPY", direct ? "1" : "0").ok());
  static char text[64] = "of the parent";
  with_pair(
      [direct](HostLanes& lanes, Shared& shared, pid_t) {
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        ReceiveMemory unused;
        int peer = -1;
        int channel = -1;
        REQUIRE(lanes.accept(0, peer, channel, unused).ok());
        CHECK(peer == 1);
        char copy[64] = "";
        const Code code = lanes.get(1, shared.memory, 0, copy, sizeof copy);
        if (!direct) {
          // The owner's thread does it for memory that it shares, and for no other.
          CHECK(code == Code::ok);
          CHECK(std::string(copy) == "of the child");
          MemoryName outside = shared.memory;
          outside.bytes += 1;
          CHECK(lanes.get(1, outside, 0, copy, outside.bytes) == Code::bad_argument);
          MemoryName any = shared.memory;
          any.region = 0;
          CHECK(lanes.get(1, any, 0, copy, sizeof copy) == Code::not_permitted);
          CHECK_FALSE(lanes.can_copy(1));
        } else if (lanes.can_copy(1)) {
          CHECK(code == Code::ok);
          CHECK(std::string(copy) == "of the child");
          MemoryName nowhere = shared.memory;
          nowhere.address = 4096;
          CHECK(lanes.get(1, nowhere, 0, copy, sizeof copy) == Code::bad_argument);
        } else {
          WARN("this machine refuses process_vm_readv between processes");
        }
        shared.mark.store(2);
      },
      [](HostLanes& lanes, Shared& shared) {
        std::strcpy(text, "of the child");
        SendMemory memory;
        if (!lanes.connect(0, 0, memory)) return 91;
        if (!lanes.share(text, sizeof text, shared.memory)) return 92;
        shared.mark.store(1);
        return wait_for([&] { return shared.mark.load() == 2; }) ? 0 : 93;
      },
      settings);
}

TEST_CASE("words of memory that a peer shares are counted in, whatever the peer does", "[fabric]") {
  static std::uint64_t words[4] = {0, 5, 98, 0};
  with_pair(
      [](HostLanes& lanes, Shared& shared, pid_t) {
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        const MemoryName memory = shared.memory;
        std::uint64_t before = 0;
        REQUIRE(lanes.cas(1, memory, 16, 97, 1, before) == Code::ok);
        CHECK(before == 98);
        REQUIRE(lanes.cas(1, memory, 16, 98, 1, before) == Code::ok);
        CHECK(before == 98);
        // The owner computes and never calls the fabric, and adds to the same word.
        std::atomic<int> num_failed{0};
        std::thread threads[2];
        for (std::thread& thread : threads)
          thread = std::thread([&] {
            std::uint64_t old = 0;
            for (int i = 0; i < 500; ++i)
              num_failed += lanes.fetch_add(1, memory, 8, 2, old) != Code::ok;
          });
        for (std::thread& thread : threads) thread.join();
        CHECK(num_failed == 0);
        CHECK(lanes.fetch_add(1, memory, 4, 1, before) == Code::bad_argument);
        CHECK(lanes.fetch_add(1, memory, 32, 1, before) == Code::bad_argument);
        MemoryName wrong = memory;
        wrong.region ^= 1 << 13;
        CHECK(lanes.fetch_add(1, wrong, 8, 1, before) == Code::bad_argument);
        shared.mark.store(2);
        REQUIRE(wait_for([&] { return shared.mark.load() == 3; }));
        CHECK(lanes.fetch_add(1, memory, 8, 1, before) == Code::bad_argument);
        shared.mark.store(4);
      },
      [](HostLanes& lanes, Shared& shared) {
        if (!lanes.share(words, sizeof words, shared.memory)) return 91;
        shared.mark.store(1);
        for (int i = 0; i < 2000; ++i) std::atomic_ref(words[1]).fetch_add(1);
        if (!wait_for([&] { return shared.mark.load() == 2; })) return 92;
        if (words[1] != 5 + 2000 + 2000 || words[2] != 1 || words[0] != 0) return 93;
        if (!lanes.unshare(shared.memory)) return 94;
        shared.mark.store(3);
        return wait_for([&] { return shared.mark.load() == 4; }) ? 0 : 95;
      });
}

// The owner's thread that counts for its peers would end it with SIGSEGV.
TEST_CASE("memory that its owner cannot write is shared for reading only", "[fabric]") {
  with_pair(
      [](HostLanes& lanes, Shared& shared, pid_t) {
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        std::uint64_t word = 0;
        if (lanes.can_copy(1)) CHECK(lanes.get(1, shared.memory, 8, &word, 8) == Code::ok);
        CHECK(lanes.put(1, shared.memory, 8, &word, 8) == Code::bad_argument);
        CHECK(lanes.fetch_add(1, shared.memory, 8, 1, word) == Code::bad_argument);
        CHECK(lanes.cas(1, shared.memory, 8, 0, 1, word) == Code::bad_argument);
        shared.mark.store(2);
      },
      [](HostLanes& lanes, Shared& shared) {
        void* words = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (words == MAP_FAILED || !lanes.share(words, 4096, shared.memory)) return 91;
        shared.mark.store(1);
        return wait_for([&] { return shared.mark.load() == 2; }) ? 0 : 92;
      });
}

TEST_CASE("a peer that was killed is dead, one that said goodbye has left", "[fabric]") {
  const bool killed = GENERATE(true, false);
  with_pair(
      [killed](HostLanes& lanes, Shared& shared, pid_t child) {
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        CHECK(lanes.state(1) == PeerState::alive);
        if (killed)
          kill(child, SIGKILL);
        else
          shared.mark.store(2);
        REQUIRE(wait_for([&] { return lanes.state(1) != PeerState::alive; }));
        CHECK(lanes.state(1) == (killed ? PeerState::dead : PeerState::left));
      },
      [](HostLanes& lanes, Shared& shared) {
        shared.mark.store(1);
        if (!wait_for([&] { return shared.mark.load() == 2; })) return 91;
        lanes.leave();
        return 0;
      });
}

TEST_CASE("to who has lost /proc a living peer is not lost", "[fabric]") {
  const shm::ArenaLayout layout{2, 1 << 16};
  std::shared_ptr<shm::Arena> arena;
  REQUIRE(shm::Arena::create(layout, 1 << 20, arena).ok());
  char folder[] = "/tmp/weft-empty-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  constexpr int kNotPermittedHere = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (chroot(folder) != 0) _exit(kNotPermittedHere);
    std::shared_ptr<shm::Arena> theirs;
    const Status status = shm::Arena::open(getppid(), arena->fd(), layout, theirs);
    _exit(static_cast<int>(status.code()));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  rmdir(folder);
  if (WEXITSTATUS(status) == kNotPermittedHere) {
    WARN("skipped: chroot is for root");
    return;
  }
  CHECK(static_cast<Code>(WEXITSTATUS(status)) == Code::not_permitted);
}

TEST_CASE("two processes have as many lanes as they connect, also to themselves", "[fabric]") {
  const auto say = [](SendMemory& memory, const char* text) {
    std::strcpy(reinterpret_cast<char*>(memory.ring), text);
    memory.ring[memory.ring_bytes + 63] = std::byte{1};  // a line beyond belongs to it
  };
  const auto accept_all = [](HostLanes& lanes, int client, int num,
                             std::vector<std::pair<int, ReceiveMemory>>& accepted) {
    return wait_for([&] {
      int peer = -1, channel = 0;
      ReceiveMemory memory;
      if (lanes.accept(client, peer, channel, memory).ok() && peer >= 0)
        accepted.emplace_back(channel, memory);
      return static_cast<int>(accepted.size()) == num;
    });
  };
  with_pair(
      [&](HostLanes& lanes, Shared& shared, pid_t) {
        for (std::uint8_t writer = 0; writer < 3; ++writer)
          for (const int peer : {0, 1}) {
            SendMemory memory;
            memory.ring_bytes = 8192;
            REQUIRE(lanes.connect(peer, channel_number({17, writer, 2}), memory).ok());
            say(memory, writer == 1 ? "one" : "other");
            CHECK(memory.sleeping->load() == 0);
          }
        std::vector<std::pair<int, ReceiveMemory>> accepted;
        ReceiveMemory none;
        int peer = 0, channel = 0;
        REQUIRE(lanes.accept(16, peer, channel, none).ok());  // another client's
        CHECK(peer == -1);
        REQUIRE(accept_all(lanes, 17, 3, accepted));
        for (auto& [number, memory] : accepted) {
          CHECK(memory.ring_bytes == 8192);
          CHECK(std::string(reinterpret_cast<char*>(memory.ring)) ==
                (channel_of(number).writer == 1 ? "one" : "other"));
          CHECK(memory.sleeping == &lanes.sleeping(writer_doorbell(number)));
        }
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        lanes.close_client(17);
        shared.mark.store(2);
        // What was freed serves again, and is clear.
        SendMemory again;
        again.ring_bytes = 8192;
        REQUIRE(lanes.connect(0, channel_number({18, 0, 0}), again).ok());
        CHECK(again.ring[0] == std::byte{0});
        CHECK(again.ring[8192 + 63] == std::byte{0});
        // What a peer asks for in vain costs nobody else anything.
        Status status;
        int num_rings = 0;
        for (; status.ok() && num_rings < 64; ++num_rings) {
          SendMemory large;
          large.ring_bytes = 1 << 20;
          status = lanes.connect(1, channel_number({18, 0, 0}), large);
        }
        CHECK(status.code() == Code::no_memory);
        CHECK(num_rings > 8);
        CHECK(num_rings < 17);
        shared.mark.store(3);
      },
      [&](HostLanes& lanes, Shared& shared) {
        std::vector<std::pair<int, ReceiveMemory>> accepted;
        if (!accept_all(lanes, 17, 3, accepted)) return 91;
        shared.mark.store(1);
        if (!wait_for([&] { return shared.mark.load() >= 2; })) return 92;
        lanes.close_client(17);
        return wait_for([&] { return shared.mark.load() == 3; }) ? 0 : 93;
      },
      [] {
        Settings settings;
        REQUIRE(settings.set("LANE_MEMORY_BYTES", "16M").ok());
        return settings;
      }());
}

TEST_CASE("once memory is shared no more, no copy of a peer changes it", "[fabric]") {
  static std::vector<std::byte> buffer(4 << 20);
  with_pair(
      [](HostLanes& lanes, Shared& shared, pid_t) {
        std::vector<std::byte> data(buffer.size());
        for (int round = 1; round <= 30; ++round) {
          REQUIRE(wait_for([&] { return shared.mark.load() == 2 * round - 1; }));
          const MemoryName memory = shared.memory;
          Code code = Code::ok;
          for (unsigned char i = 0; code == Code::ok; ++i) {
            std::memset(data.data(), i, data.size());
            shared.arrived[15].fetch_add(1);  // the owner waits for a copy to be near
            code = lanes.put(1, memory, 0, data.data(), data.size());
          }
          CHECK(code == Code::bad_argument);
          shared.mark.store(2 * round);
        }
      },
      [](HostLanes& lanes, Shared& shared) {
        for (int round = 1; round <= 30; ++round) {
          if (!lanes.share(buffer.data(), buffer.size(), shared.memory)) return 91;
          const int before = shared.arrived[15].load();
          shared.mark.store(2 * round - 1);
          if (!wait_for([&] { return shared.arrived[15].load() > before + round % 3; })) return 92;
          for (int i = 0; i < round * 1000; ++i) cpu_relax();
          if (!lanes.unshare(shared.memory)) return 93;
          const std::vector<std::byte> then = buffer;
          if (!wait_for([&] { return shared.mark.load() == 2 * round; })) return 94;
          if (buffer != then) return 95;
        }
        return 0;
      });
}

TEST_CASE("a lane that cannot be takes nothing from the arena", "[fabric]") {
  const shm::ArenaLayout layout{1, 4096};
  constexpr std::size_t kStride = 2 * 4096;
  shm::LaneEntry* entry = nullptr;
  std::byte* ring = nullptr;
  {  // the directory is full first
    std::shared_ptr<shm::Arena> arena;
    REQUIRE(shm::Arena::create(layout, (shm::kMaxLanes + 2) * kStride, arena).ok());
    for (std::uint32_t i = 0; i < shm::kMaxLanes; ++i)
      if (!arena->take_lane(4096, true, entry, ring)) FAIL("entry " << i);
    const std::uint64_t before = arena->header().lane_bytes;
    CHECK(arena->take_lane(4096, true, entry, ring) == Code::no_memory);
    CHECK(arena->header().lane_bytes == before);
    CHECK(arena->header().num_entries == shm::kMaxLanes);
  }
  {  // the memory is
    std::shared_ptr<shm::Arena> arena;
    REQUIRE(shm::Arena::create(layout, 3 * kStride, arena).ok());
    REQUIRE(arena->take_lane(4096, true, entry, ring).ok());
    const std::uint32_t before = arena->header().num_entries;
    for (std::uint32_t i = 0; i < shm::kMaxLanes; ++i)
      if (arena->take_lane(4 * 4096, true, entry, ring) != Code::no_memory) FAIL("attempt " << i);
    CHECK(arena->header().num_entries <= before + 1);
    CHECK(arena->take_lane(4096, true, entry, ring).ok());
  }
}

TEST_CASE("rings of any size come and go without end", "[fabric]") {
  constexpr std::size_t kMost = 1 << 20;
  std::shared_ptr<shm::Arena> arena;
  REQUIRE(shm::Arena::create({1, 4096}, kMost, arena).ok());
  std::mt19937 random(1);
  struct Lane {
    shm::LaneEntry* entry;
    std::byte* ring;
    std::uint32_t bytes;
  };
  std::vector<Lane> lanes;
  std::size_t in_use = 0;
  const auto end = [&](std::size_t index) {
    const Lane lane = lanes[index];
    lanes.erase(lanes.begin() + static_cast<std::ptrdiff_t>(index));
    // Nobody else has written there.
    if (lane.ring[lane.bytes + 63] != static_cast<std::byte>(lane.bytes / 4096))
      FAIL("overwritten");
    arena->unmap_lane(lane.ring);
    arena->free_lane(*lane.entry);
    in_use -= shm::ArenaLayout::stride(lane.bytes);
  };
  const auto is_exact = [&](std::uint32_t bytes, Lane& lane) {
    const bool fits = in_use + shm::ArenaLayout::stride(bytes) <= kMost;
    if (arena->take_lane(bytes, true, lane.entry, lane.ring).ok() != fits) return false;
    if (!fits) return true;
    lane.bytes = bytes;
    in_use += shm::ArenaLayout::stride(bytes);
    const bool is_clear = lane.ring[0] == std::byte{0} && lane.ring[bytes + 63] == std::byte{0};
    lane.ring[bytes + 63] = lane.ring[0] = static_cast<std::byte>(bytes / 4096);
    lanes.push_back(lane);
    return is_clear;
  };
  // Only what is in use counts, whatever sizes were in use before.
  for (int i = 0; i < 20'000; ++i) {
    Lane lane{};
    const std::uint32_t most = i / 1000 % 2 == 0 ? 4 : 255;
    if (random() % 2 == 0 && !is_exact(4096 * (1 + random() % most), lane)) FAIL("ring " << i);
    if (!lanes.empty() && random() % 3 == 0) end(random() % lanes.size());
  }
  while (!lanes.empty()) end(0);
  // The whole directory, and then something larger.
  for (const std::uint32_t bytes : {4096u, 8192u, 512u << 10, 4096u}) {
    Lane lane{};
    while (in_use + shm::ArenaLayout::stride(bytes) <= kMost)
      if (!is_exact(bytes, lane)) FAIL("a ring of " << bytes);
    if (!is_exact(bytes, lane)) FAIL("beyond the limit");
    while (!lanes.empty()) end(0);
  }
  CHECK(arena->header().lane_bytes == 0);
}

TEST_CASE("lanes that nobody has accepted end with their client", "[fabric]") {
  Settings settings;
  REQUIRE(settings.set("LANE_MEMORY_BYTES", "1M").ok());
  std::vector<std::unique_ptr<Board>> boards = make_thread_boards(1);
  std::unique_ptr<Members> job;
  std::unique_ptr<HostLanes> lanes;
  REQUIRE(Members::open(settings, std::move(boards[0]), job).ok());
  REQUIRE(make_host_lanes(*job, lanes).ok());
  for (int i = 0; i < 1000; ++i) {
    for (const int client : {11, 12}) {
      SendMemory memory;
      memory.ring_bytes = 64 << 10;
      if (!lanes->connect(0, channel_number({static_cast<std::uint16_t>(client), 0, 0}), memory))
        FAIL("lane " << i);
    }
    lanes->close_client(11);
    int peer = 0, channel = 0;
    ReceiveMemory memory;
    if (!lanes->accept(11, peer, channel, memory) || peer != -1) FAIL("an ended lane comes again");
    if (!lanes->accept(12, peer, channel, memory) || peer != 0) FAIL("another client's is gone");
    lanes->close_client(12);
  }
}

TEST_CASE("who stands still in a copy is told of, and holds up nobody else", "[fabric]") {
  Settings settings;
  const bool times_out = GENERATE(false, true);
  REQUIRE(settings.set("PEER_TIMEOUT_MS", times_out ? "100" : "10000").ok());
  std::vector<std::unique_ptr<Board>> boards = make_thread_boards(1);
  Board& board = *boards[0];
  std::unique_ptr<Members> job;
  std::unique_ptr<HostLanes> lanes;
  REQUIRE(Members::open(settings, std::move(boards[0]), job).ok());
  REQUIRE(make_host_lanes(*job, lanes).ok());
  std::string text;
  REQUIRE(board.get(0, "shm.arena", text).ok());
  std::shared_ptr<shm::Arena> arena;
  REQUIRE(shm::Arena::open(getpid(), std::atoi(text.c_str()), {}, arena).ok());

  std::uint64_t words[2][8] = {};
  MemoryName memory[2];
  REQUIRE(lanes->share(words[0], sizeof words[0], memory[0]).ok());
  auto& copying = arena->control(0).copying[arena->control(0).era.load() % 2];
  copying.store(1);
  std::atomic<bool> ended{false};
  Status status;
  std::thread ends([&] {
    status = lanes->unshare(memory[0]);
    ended.store(true);
  });
  REQUIRE(wait_for([&] { return arena->control(0).era.load() != 0; }));
  CHECK(lanes->share(words[1], sizeof words[1], memory[1]).ok());
  if (!times_out) {
    CHECK_FALSE(ended.load());
    copying.store(0);
  }
  ends.join();
  CHECK(status.code() == (times_out ? Code::timed_out : Code::ok));
  copying.store(0);
  CHECK(lanes->unshare(memory[1]).ok());
  std::uint64_t word = 0;
  CHECK(lanes->get(0, memory[0], 0, &word, sizeof word) == Code::bad_argument);
}

TEST_CASE("a descriptor that has become something else names no memory", "[fabric]") {
  // Read-only, so that an ordinary user may not open it as a region; it comes and goes.
  static const char* const kFile = "/proc/self/stat";
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(shared != MAP_FAILED);
  const auto become_ordinary = [] {
    // A process that gives up its rights is closed to others, until it says otherwise.
    return geteuid() != 0 ||
           (setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0 &&
            prctl(PR_SET_DUMPABLE, 1) == 0);
  };
  const pid_t owner = fork();
  if (owner == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!become_ordinary()) _exit(90);
    shm::OwnRegions regions;
    void* address = nullptr;
    if (!regions.allocate(4096, address, shared->memory)) _exit(91);
    shared->mark.store(1);
    if (!wait_for([&] { return shared->mark.load() == 2; }) || !regions.release(address)) _exit(92);
    shared->mark.store(3);
    for (;;) close(open(kFile, O_RDONLY | O_CLOEXEC));
  }
  const pid_t reader = fork();
  if (reader == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!become_ordinary() || !wait_for([&] { return shared->mark.load() == 1; })) _exit(90);
    const MemoryName memory = shared->memory;
    std::byte* data = nullptr;
    Code code = Code::ok;
    {
      shm::PeerRegions regions;
      if (regions.use(owner, memory, 0, 4096, data, code) == nullptr) _exit(91);
    }
    shared->mark.store(2);
    if (!wait_for([&] { return shared->mark.load() == 3; })) _exit(92);
    shm::PeerRegions regions;
    for (int i = 0; i < 20'000; ++i)
      if (regions.use(owner, memory, 0, 4096, data, code) != nullptr || code != Code::bad_argument)
        _exit(static_cast<int>(code));
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(reader, &status, 0) == reader);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  munmap(shared, sizeof(Shared));
}

TEST_CASE("memory that is left to others stays theirs", "[fabric]") {
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(shared != MAP_FAILED);
  const pid_t user = fork();
  if (user == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!wait_for([&] { return shared->mark.load() == 1; })) _exit(90);
    shm::PeerRegions regions;
    std::byte* data = nullptr;
    Code code = Code::ok;
    shm::PeerRegion* region = regions.use(getppid(), shared->memory, 0, 4096, data, code);
    if (region == nullptr) _exit(91);
    shared->mark.store(2);
    if (!wait_for([&] { return shared->mark.load() == 3; })) _exit(92);
    if (data[5] != std::byte{77}) _exit(93);
    // Nobody gets it any more; who has it keeps it until it is dropped.
    std::byte* other = nullptr;
    if (regions.use(getppid(), shared->memory, 0, 4096, other, code) != nullptr) _exit(94);
    if (data[5] != std::byte{77}) _exit(95);
    regions.done(region, true);
    _exit(0);
  }
  {
    shm::OwnRegions regions;
    void* address = nullptr;
    REQUIRE(regions.allocate(4096, address, shared->memory).ok());
    static_cast<std::byte*>(address)[5] = std::byte{77};
    shared->mark.store(1);
    CHECK(wait_for([&] { return shared->mark.load() == 2; }));
    CHECK(regions.release(address, true).ok());
  }
  shared->mark.store(3);
  int status = 0;
  REQUIRE(waitpid(user, &status, 0) == user);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  munmap(shared, sizeof(Shared));
}
