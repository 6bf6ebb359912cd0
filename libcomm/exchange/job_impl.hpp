#pragma once
// The inside of the public Job: what its threads keep for themselves, and what exchanges need of
// it.
#include <unistd.h>

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/shortage.hpp"
#include "coll/coll.hpp"
#include "exchange/agreement.hpp"
#include "job/members.hpp"
#include "lanes/fabrics.hpp"
#include "lanes/lanes.hpp"
#include "tagged/engine.hpp"
#include "weft/job.hpp"

namespace weft::transport {

// Memory of peers that a thread has mapped, so that it reaches it without a lock or a call.
class MappingCache {
 public:
  // window: shows nothing that this cache has let go.
  explicit MappingCache(detail::Window& window) : window_(window) {}
  ~MappingCache();
  // Where the memory is here, or null with the reason: unsupported means "use get and put".
  std::byte* find(HostLanes& lanes, const RemoteMemory& memory, Code& code) noexcept {
    const std::uint64_t number = memory.keys[0].number();
    MappedMemory& entry = entries_[number % kNumEntries];
    if (entry.number == number && entry.peer == memory.owner && entry.is_valid()) [[likely]] {
      std::byte* data = entry.find(fabric_memory(memory));
      code = data != nullptr ? Code::ok : Code::bad_argument;
      return data;
    }
    return map(lanes, entry, memory, code);
  }
  // Makes the window show the memory, which was just found.
  void show(const RemoteMemory& memory) noexcept {
    const MappedMemory& entry = entries_[memory.keys[0].number() % kNumEntries];
    window_.data = entry.data;
    window_.address = entry.address;
    window_.bytes = entry.bytes;
    window_.current = entry.current;
    window_.number = entry.number;
    window_.owner = entry.peer;
  }
  static MemoryName fabric_memory(const RemoteMemory& memory) noexcept {
    return {memory.address, memory.bytes, memory.keys[0].region, memory.keys[0].extra};
  }

 private:
  static constexpr std::size_t kNumEntries = 61;
  std::byte* map(HostLanes& lanes, MappedMemory& entry, const RemoteMemory& memory,
                 Code& code) noexcept;

  detail::Window& window_;
  HostLanes* lanes_ = nullptr;
  std::array<MappedMemory, kNumEntries> entries_;
};

// Where the outcome of an asynchronous transfer goes.
struct TransferSlot {
  Completion completion;
  std::uint32_t use = 1;  // the token of another use is used up
};

// What belongs to one thread of the program; touched by nobody else.
struct ThreadState {
  explicit ThreadState(detail::Window& window) : mappings(window) {}

  MappingCache mappings;
  std::deque<TransferSlot> transfers;  // by a token's slot
  std::vector<std::uint32_t> free_slots;
  unsigned num_calls = 0;
};

// Contexts of the engine from here on are of Allreduces; those before, of Agreement.
inline constexpr std::uint32_t kFirstAllreduceContext = tagged::kThreadContext / 2;

// Work that a thread does while it waits in a collective call.
struct Background {
  void (*work)(void*);
  void* argument;
};
inline thread_local const Background* background = nullptr;

static_assert(kMaxThreads == kNumDoorbells);

// That this process is in its job by a Job: for one at a time.
class OnlyJob {
 public:
  OnlyJob();  // throws Error (bad_argument: there is one)
  ~OnlyJob();
  OnlyJob(const OnlyJob&) = delete;
};

struct Job::Impl {
  explicit Impl(std::unique_ptr<weft::Members> opened);
  ~Impl();

  // Of a thread that has been found before.
  ThreadState& thread(int number) noexcept { return *threads[static_cast<std::size_t>(number)]; }
  static constexpr bool is_thread(int number) noexcept {
    return number >= 0 && number < kMaxThreads;
  }
  // Null: no memory, or no number of a thread.
  ThreadState* find_thread(int number) noexcept {
    if (!is_thread(number)) [[unlikely]]
      return nullptr;
    auto& state = threads[static_cast<std::size_t>(number)];
    if (!state) [[unlikely]]
      (void)or_no_memory([&] {
        state = std::make_unique<ThreadState>(windows[static_cast<std::size_t>(number)]);
      });
    return state.get();
  }
  // The way to a rank: its fabric, and which of a memory's keys that understands.
  struct Way {
    Lanes* lanes = nullptr;  // null: there is none
    std::size_t key = 0;
  };
  const Way& way(int rank) const noexcept { return ways[static_cast<std::size_t>(rank)]; }
  // As the fabric to the memory's owner names it.
  MemoryName memory_on_way(const RemoteMemory& memory) const noexcept {
    const std::size_t index = way(memory.owner).key;
    const auto& key = memory.keys[index];
    return {address_for(memory, index), memory.bytes, key.region, key.extra};
  }
  // As who uses keys[index] counts: from the start of its own registration, or in the owner.
  static std::uint64_t address_for(const RemoteMemory& memory, std::size_t index) noexcept {
    return (memory.counted >> index & 1) != 0 ? memory.address - memory.start : memory.address;
  }
  // Shares with other hosts what is `made` inside this one, and says how all call it. After an
  // error it is shared no more.
  Status name(void* address, std::size_t bytes, MemoryName made, RemoteMemory& memory);
  Status allocate(std::size_t bytes, void*& address, RemoteMemory& memory);
  Status release(void* address);
  Status share(void* address, std::size_t bytes, RemoteMemory& memory);
  Status unshare(const RemoteMemory& memory);
  // What all ranks do together, see Agreement. `values` and `all` are undefined after an error.
  Status barrier() {
    return agreement->run({}, [](coll::Team& team) { return coll::barrier(team); });
  }
  Status all_reduce(void* values, std::size_t count, const coll::Reduction& op);
  // Zeros from ranks that are lost.
  Status all_gather(const void* mine, void* all, std::size_t bytes);
  Status all_gather_spans(const void* mine, void* all, const std::vector<std::size_t>& counts,
                          std::size_t element_bytes);
  // Moves the fabrics to other hosts forward.
  void poll_remote() noexcept;

  // False in a child that the process has forked: what is held here is not the child's, and the
  // peers know nothing of it.
  bool is_own_process() const noexcept { return getpid() == process; }

  bool has_rank(int rank) const noexcept { return rank >= 0 && rank < members->size(); }

  const pid_t process = getpid();
  std::unique_ptr<OnlyJob> only;  // null: one of LocalRanks
  std::unique_ptr<weft::Members> members;
  std::unique_ptr<tagged::Engine> engine;
  std::unique_ptr<Agreement> agreement;
  Fabrics* fabrics = nullptr;
  HostLanes* local = nullptr;  // inside the host
  std::vector<Way> ways;       // by rank
  std::mutex allocated_mutex;
  std::map<void*, RemoteMemory> allocated;  // where other hosts are; guarded by allocated_mutex
  std::array<detail::Window, kMaxThreads> windows;
  std::array<std::unique_ptr<ThreadState>, kMaxThreads> threads;
  // Numbers of the exchanges that are open, and of the last that was opened. They are given in
  // turn, so that a number is used again only after every rank has long closed what had it.
  std::set<int> clients;
  int last_client = kNumEngineClients - 1;
  // Of Allreduces, so far: each has a context of its own.
  std::uint32_t num_allreduces = 0;
  static constexpr int kMaxExchanges = kMaxClients - kNumEngineClients + 1;
  // The number of the next exchange, the same on all ranks; 0: all are in use.
  int free_client() const noexcept {
    for (int i = 0; i < kMaxExchanges; ++i) {
      const int client =
          (last_client + 1 - kNumEngineClients + i) % kMaxExchanges + kNumEngineClients;
      if (!clients.contains(client)) return client;
    }
    return 0;
  }
};

struct LocalRanks::Impl {
  std::vector<std::unique_ptr<Board>> boards;
};

}  // namespace weft::transport
