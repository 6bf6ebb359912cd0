// The contract of fabric.hpp over shared memory, between this process and children of it.
#include "fabric/fabric.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/wait.hpp"
#include "fabric/shm/pipe.hpp"
#include "fabric/shm/shm_fabric.hpp"

namespace {

using namespace weft;

constexpr std::uint64_t kDeadlineNs = 10'000'000'000;

// A board for forked processes: each puts a few short values into memory that all share.
struct Shared {
  std::atomic<int> arrived[16];
  std::atomic<int> mark;  // for the tests' own use
  RemoteMemory memory;
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
void with_pair(const std::function<void(Fabric&, Shared&, pid_t)>& here,
               const std::function<int(Fabric&, Shared&)>& there, Settings settings = {}) {
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(shared != MAP_FAILED);
  const auto open = [&](int rank, std::unique_ptr<Job>& job, std::unique_ptr<Fabric>& fabric) {
    if (Status status = Job::open(settings, std::make_unique<ForkBoard>(*shared, rank), job);
        !status)
      return status;
    return make_shm_fabric(*job, fabric);
  };
  const pid_t child = fork();
  if (child == 0) {
    std::unique_ptr<Job> job;
    std::unique_ptr<Fabric> fabric;
    if (!open(1, job, fabric)) _exit(90);
    _exit(there(*fabric, *shared));
  }
  std::unique_ptr<Job> job;
  std::unique_ptr<Fabric> fabric;
  const Status status = open(0, job, fabric);
  INFO(status.text());
  REQUIRE(status.ok());
  here(*fabric, *shared, child);
  int exit_status = 0;
  waitpid(child, &exit_status, 0);
  if (WIFEXITED(exit_status)) CHECK(WEXITSTATUS(exit_status) == 0);
  fabric.reset();
  munmap(shared, sizeof(Shared));
}

}  // namespace

TEST_CASE("allocated memory of a peer is read, written and counted in", "[fabric]") {
  with_pair(
      [](Fabric& fabric, Shared& shared, pid_t) {
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        const RemoteMemory memory = shared.memory;
        REQUIRE(memory.region != 0);
        std::vector<std::uint64_t> words(512);
        REQUIRE(fabric.get(1, memory, 0, words.data(), 4096) == Code::ok);
        CHECK(words[0] == 7);
        CHECK(words[511] == 518);
        const std::uint64_t value = 99;
        REQUIRE(fabric.put(1, memory, 8, &value, 8) == Code::ok);
        std::uint64_t before = 0;
        REQUIRE(fabric.cas(1, memory, 8, 98, 5, before) == Code::ok);
        CHECK(before == 99);
        REQUIRE(fabric.cas(1, memory, 8, 99, 100, before) == Code::ok);
        // Both sides add to the same word at once; nothing is lost.
        for (int i = 0; i < 20000; ++i)
          REQUIRE(fabric.fetch_add(1, memory, 16, 1, before) == Code::ok);
        REQUIRE(wait_for([&] { return shared.mark.load() == 2; }));
        REQUIRE(fabric.get(1, memory, 8, words.data(), 16) == Code::ok);
        CHECK(words[0] == 100);
        CHECK(words[1] == 40009);

        // Out of bounds, unaligned, unknown.
        char byte = 0;
        CHECK(fabric.get(1, memory, 4096, &byte, 1) == Code::bad_argument);
        CHECK(fabric.get(1, memory, 1, words.data(), 4096) == Code::bad_argument);
        CHECK(fabric.fetch_add(1, memory, 4, 1, before) == Code::bad_argument);
        RemoteMemory wrong = memory;
        wrong.bytes = 1 << 20;
        CHECK(fabric.get(1, wrong, 8192, &byte, 1) == Code::bad_argument);
        wrong = memory;
        wrong.address -= 64;
        CHECK(fabric.get(1, wrong, 0, &byte, 1) == Code::bad_argument);
        wrong = memory;
        wrong.region ^= 0x10000;
        CHECK(fabric.get(1, wrong, 0, &byte, 1) != Code::ok);
        wrong.region = 1 << 16 | 0;  // a descriptor that is no region
        CHECK(fabric.get(1, wrong, 0, &byte, 1) != Code::ok);

        shared.mark.store(3);
        REQUIRE(wait_for([&] { return shared.mark.load() == 4; }));
        CHECK(fabric.get(1, memory, 0, &byte, 1) == Code::bad_argument);  // released
        shared.mark.store(5);
      },
      [](Fabric& fabric, Shared& shared) {
        void* address = nullptr;
        RemoteMemory memory;
        if (!fabric.allocate(4096, address, memory)) return 91;
        auto* words = static_cast<std::uint64_t*>(address);
        for (std::uint64_t i = 0; i < 512; ++i) words[i] = i + 7;
        shared.memory = memory;
        shared.mark.store(1);
        for (int i = 0; i < 20000; ++i) std::atomic_ref(words[2]).fetch_add(1);
        // 9 + 20000 of ours + 20000 of theirs.
        if (!wait_for([&] { return std::atomic_ref(words[2]).load() == 40009; })) return 92;
        shared.mark.store(2);
        if (!wait_for([&] { return shared.mark.load() == 3; })) return 93;
        if (!fabric.release(address)) return 94;
        if (fabric.release(address).ok()) return 95;
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
      [direct](Fabric& fabric, Shared& shared, pid_t) {
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        ReceiveMemory unused;
        int peer = -1;
        int channel = -1;
        REQUIRE(fabric.accept(0, peer, channel, unused).ok());
        CHECK(peer == 1);
        char copy[64] = "";
        const Code code = fabric.get(1, shared.memory, 0, copy, sizeof copy);
        if (!direct) {
          CHECK(code == Code::not_permitted);
          CHECK_FALSE(fabric.can_copy(1));
        } else if (fabric.can_copy(1)) {
          CHECK(code == Code::ok);
          CHECK(std::string(copy) == "of the child");
          RemoteMemory nowhere = shared.memory;
          nowhere.address = 4096;
          CHECK(fabric.get(1, nowhere, 0, copy, sizeof copy) == Code::bad_argument);
        } else {
          WARN("this machine refuses process_vm_readv between processes");
        }
        shared.mark.store(2);
      },
      [](Fabric& fabric, Shared& shared) {
        std::strcpy(text, "of the child");
        SendMemory memory;
        if (!fabric.connect(0, 0, memory)) return 91;
        if (!fabric.share(text, sizeof text, shared.memory)) return 92;
        shared.mark.store(1);
        return wait_for([&] { return shared.mark.load() == 2; }) ? 0 : 93;
      },
      settings);
}

TEST_CASE("words of memory that a peer shares are counted in, whatever the peer does", "[fabric]") {
  static std::uint64_t words[4] = {0, 5, 98, 0};
  with_pair(
      [](Fabric& fabric, Shared& shared, pid_t) {
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        const RemoteMemory memory = shared.memory;
        std::uint64_t before = 0;
        REQUIRE(fabric.cas(1, memory, 16, 97, 1, before) == Code::ok);
        CHECK(before == 98);
        REQUIRE(fabric.cas(1, memory, 16, 98, 1, before) == Code::ok);
        CHECK(before == 98);
        // The owner computes and never calls the fabric, and adds to the same word.
        std::atomic<int> num_failed{0};
        std::thread threads[2];
        for (std::thread& thread : threads)
          thread = std::thread([&] {
            std::uint64_t old = 0;
            for (int i = 0; i < 500; ++i)
              num_failed += fabric.fetch_add(1, memory, 8, 2, old) != Code::ok;
          });
        for (std::thread& thread : threads) thread.join();
        CHECK(num_failed == 0);
        CHECK(fabric.fetch_add(1, memory, 4, 1, before) == Code::bad_argument);
        CHECK(fabric.fetch_add(1, memory, 32, 1, before) == Code::bad_argument);
        RemoteMemory wrong = memory;
        wrong.region ^= 1 << 13;
        CHECK(fabric.fetch_add(1, wrong, 8, 1, before) == Code::bad_argument);
        shared.mark.store(2);
        REQUIRE(wait_for([&] { return shared.mark.load() == 3; }));
        CHECK(fabric.fetch_add(1, memory, 8, 1, before) == Code::bad_argument);
        shared.mark.store(4);
      },
      [](Fabric& fabric, Shared& shared) {
        if (!fabric.share(words, sizeof words, shared.memory)) return 91;
        shared.mark.store(1);
        for (int i = 0; i < 2000; ++i) std::atomic_ref(words[1]).fetch_add(1);
        if (!wait_for([&] { return shared.mark.load() == 2; })) return 92;
        if (words[1] != 5 + 2000 + 2000 || words[2] != 1 || words[0] != 0) return 93;
        if (!fabric.unshare(shared.memory)) return 94;
        shared.mark.store(3);
        return wait_for([&] { return shared.mark.load() == 4; }) ? 0 : 95;
      });
}

// The owner's thread that counts for its peers would end it with SIGSEGV.
TEST_CASE("memory that its owner cannot write is shared for reading only", "[fabric]") {
  with_pair(
      [](Fabric& fabric, Shared& shared, pid_t) {
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        std::uint64_t word = 0;
        if (fabric.can_copy(1)) CHECK(fabric.get(1, shared.memory, 8, &word, 8) == Code::ok);
        CHECK(fabric.put(1, shared.memory, 8, &word, 8) == Code::bad_argument);
        CHECK(fabric.fetch_add(1, shared.memory, 8, 1, word) == Code::bad_argument);
        CHECK(fabric.cas(1, shared.memory, 8, 0, 1, word) == Code::bad_argument);
        shared.mark.store(2);
      },
      [](Fabric& fabric, Shared& shared) {
        void* words = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (words == MAP_FAILED || !fabric.share(words, 4096, shared.memory)) return 91;
        shared.mark.store(1);
        return wait_for([&] { return shared.mark.load() == 2; }) ? 0 : 92;
      });
}

TEST_CASE("a peer that was killed is dead, one that said goodbye has left", "[fabric]") {
  const bool killed = GENERATE(true, false);
  with_pair(
      [killed](Fabric& fabric, Shared& shared, pid_t child) {
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        CHECK(fabric.state(1) == PeerState::alive);
        if (killed)
          kill(child, SIGKILL);
        else
          shared.mark.store(2);
        REQUIRE(wait_for([&] { return fabric.state(1) != PeerState::alive; }));
        CHECK(fabric.state(1) == (killed ? PeerState::dead : PeerState::left));
      },
      [](Fabric& fabric, Shared& shared) {
        shared.mark.store(1);
        if (!wait_for([&] { return shared.mark.load() == 2; })) return 91;
        fabric.leave();
        return 0;
      });
}

TEST_CASE("two processes have as many lanes as they connect, also to themselves", "[fabric]") {
  const auto say = [](SendMemory& memory, const char* text) {
    std::strcpy(reinterpret_cast<char*>(memory.ring), text);
    memory.ring[memory.ring_bytes + 63] = std::byte{1};  // a line beyond belongs to it
  };
  const auto accept_all = [](Fabric& fabric, int client, int num,
                             std::vector<std::pair<int, ReceiveMemory>>& lanes) {
    return wait_for([&] {
      int peer = -1, channel = 0;
      ReceiveMemory memory;
      if (fabric.accept(client, peer, channel, memory).ok() && peer >= 0)
        lanes.emplace_back(channel, memory);
      return static_cast<int>(lanes.size()) == num;
    });
  };
  with_pair(
      [&](Fabric& fabric, Shared& shared, pid_t) {
        for (std::uint8_t writer = 0; writer < 3; ++writer)
          for (const int peer : {0, 1}) {
            SendMemory memory;
            memory.ring_bytes = 8192;
            REQUIRE(fabric.connect(peer, channel_number({7, writer, 2}), memory).ok());
            say(memory, writer == 1 ? "one" : "other");
            CHECK(memory.sleeping->load() == 0);
          }
        std::vector<std::pair<int, ReceiveMemory>> lanes;
        ReceiveMemory none;
        int peer = 0, channel = 0;
        REQUIRE(fabric.accept(6, peer, channel, none).ok());  // another client's
        CHECK(peer == -1);
        REQUIRE(accept_all(fabric, 7, 3, lanes));
        for (auto& [number, memory] : lanes) {
          CHECK(memory.ring_bytes == 8192);
          CHECK(std::string(reinterpret_cast<char*>(memory.ring)) ==
                (channel_of(number).writer == 1 ? "one" : "other"));
          CHECK(memory.sleeping == &fabric.sleeping(writer_doorbell(number)));
        }
        REQUIRE(wait_for([&] { return shared.mark.load() == 1; }));
        fabric.close_client(7);
        shared.mark.store(2);
        // What was freed serves again, and is clear.
        SendMemory again;
        again.ring_bytes = 8192;
        REQUIRE(fabric.connect(0, channel_number({8, 0, 0}), again).ok());
        CHECK(again.ring[0] == std::byte{0});
        CHECK(again.ring[8192 + 63] == std::byte{0});
        // What a peer asks for in vain costs nobody else anything.
        Status status;
        int num_rings = 0;
        for (; status.ok() && num_rings < 64; ++num_rings) {
          SendMemory large;
          large.ring_bytes = 1 << 20;
          status = fabric.connect(1, channel_number({8, 0, 0}), large);
        }
        CHECK(status.code() == Code::no_memory);
        CHECK(num_rings > 8);
        CHECK(num_rings < 17);
        shared.mark.store(3);
      },
      [&](Fabric& fabric, Shared& shared) {
        std::vector<std::pair<int, ReceiveMemory>> lanes;
        if (!accept_all(fabric, 7, 3, lanes)) return 91;
        shared.mark.store(1);
        if (!wait_for([&] { return shared.mark.load() >= 2; })) return 92;
        fabric.close_client(7);
        return wait_for([&] { return shared.mark.load() == 3; }) ? 0 : 93;
      },
      [] {
        Settings settings;
        REQUIRE(settings.set("LANE_MEMORY_BYTES", "16M").ok());
        return settings;
      }());
}

TEST_CASE("a pipe gives what was lent to it, and nothing after an error", "[fabric]") {
  shm::OwnPipe in;
  shm::PeerPipe out;
  std::vector<char> sent(300'001), received(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7 / 5);
  const int number = in.number();
  if (number < 0) {
    WARN("skipped: this user may have no pipe of that size (see pipe(7))");
    return;
  }
  REQUIRE(in.number() == number);
  REQUIRE(out.lend(getpid(), number, sent.data(), sent.size()) == sent.size());
  CHECK(in.take(received.data(), 1000) == Code::ok);
  CHECK(in.take(received.data() + 1000, received.size() - 1000) == Code::ok);
  CHECK(received == sent);
  // More than was lent: what comes later must not be taken for the rest.
  REQUIRE(out.lend(getpid(), number, sent.data(), 5000) == 5000);
  CHECK(in.take(received.data(), 5001) == Code::corrupt);
  CHECK(in.number() == -1);
  out.lend(getpid(), number, sent.data(), 5000);
  CHECK(in.take(received.data(), 1) == Code::corrupt);
  // Not a pipe.
  CHECK(out.lend(getpid(), 0x7fffffff, sent.data(), 1) == 0);
}
