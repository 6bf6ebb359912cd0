#pragma once
// The implementation of the public Job: the state of its threads, and its interface to exchanges.
#include <unistd.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/containers/pool.hpp"
#include "base/containers/slots.hpp"
#include "base/shortage.hpp"
#include "coll/coll.hpp"
#include "exchange/agreement.hpp"
#include "exchange/memory_key.hpp"
#include "job/members.hpp"
#include "lanes/fabrics.hpp"
#include "lanes/lanes.hpp"
#include "tagged/engine.hpp"
#include "weft/job.hpp"

namespace weft::transport {

// Peers' memory that a thread has mapped, for access without a lock or a system call.
class MappingCache {
 public:
  // window: never shows memory that this cache has unmapped.
  explicit MappingCache(detail::Window& window) : window_(window) {}
  ~MappingCache();
  // Returns the address of the memory here, or null with the reason; unsupported: use get and put.
  std::byte* find(HostLanes& lanes, const RemoteMemory& memory, Code& code) noexcept {
    const std::uint64_t number = memory.number();
    MappedMemory& entry = entries_[number % kNumEntries];
    if (entry.number == number && entry.peer == memory.owner && entry.is_valid()) [[likely]] {
      std::byte* data = entry.find(key_of(memory).memory(memory, 0));
      code = data != nullptr ? Code::ok : Code::bad_argument;
      return data;
    }
    return map(lanes, entry, memory, code);
  }
  // Makes the window show memory that find() has just returned.
  void show(const RemoteMemory& memory) noexcept {
    const MappedMemory& entry = entries_[memory.number() % kNumEntries];
    window_.data = entry.data;
    window_.address = entry.address;
    window_.bytes = entry.bytes;
    window_.current = entry.current;
    window_.number = entry.number;
    window_.owner = entry.peer;
  }

 private:
  static constexpr std::size_t kNumEntries = 61;
  std::byte* map(HostLanes& lanes, MappedMemory& entry, const RemoteMemory& memory,
                 Code& code) noexcept;

  detail::Window& window_;
  HostLanes* lanes_ = nullptr;
  std::array<MappedMemory, kNumEntries> entries_;
};

// State of one thread of the program; only that thread accesses it.
struct ThreadState {
  explicit ThreadState(detail::Window& window) : mappings(window) {}

  MappingCache mappings;
  Pool<Completion> completions;
  Slots<Completion*, std::uint64_t> transfers;  // by the two numbers of a token
  unsigned num_calls = 0;
};

// Engine contexts from this one on belong to Allreduces; those below, to Agreement.
inline constexpr std::uint32_t kFirstAllreduceContext = tagged::kThreadContext / 2;

// A task that a thread runs while it waits in a collective call.
struct Background {
  void (*work)(void*);
  void* argument;
};
inline thread_local const Background* background = nullptr;

static_assert(kMaxThreads == kNumDoorbells);

// Held by the Job of this process: one at a time may exist.
class OnlyJob {
 public:
  OnlyJob();  // throws Error (bad_argument: there is one)
  ~OnlyJob();
  OnlyJob(const OnlyJob&) = delete;
};

struct Job::Impl {
  explicit Impl(std::unique_ptr<weft::Members> opened);
  ~Impl();

  // The state of a thread that find_thread() has created.
  ThreadState& thread(int number) noexcept { return *threads[static_cast<std::size_t>(number)]; }
  static constexpr bool is_thread(int number) noexcept {
    return number >= 0 && number < kMaxThreads;
  }
  // Returns null without memory, or if the number is no thread's.
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
  // The route to a rank: its fabric, and that fabric's index in MemoryKey::names.
  struct Route {
    Lanes* lanes = nullptr;  // null: none
    std::size_t key = 0;
  };
  const Route& route(int rank) const noexcept { return routes[static_cast<std::size_t>(rank)]; }
  // The name of the memory in the fabric to its owner.
  MemoryName memory_on_route(const RemoteMemory& memory) const noexcept {
    return key_of(memory).memory(memory, route(memory.owner).key);
  }
  // Shares memory that is `made` inside this host with other hosts, and fills in its key.
  // After an error it is not shared at all.
  Status name(void* address, std::size_t bytes, MemoryName made, RemoteMemory& memory);
  Status allocate(std::size_t bytes, void*& address, RemoteMemory& memory);
  Status release(void* address);
  Status unshare(const RemoteMemory& memory);
  // Collective calls by Agreement. `values` and `all` are undefined after an error.
  Status barrier() {
    return agreement->run({}, [](coll::Team& team) { return coll::barrier(team); });
  }
  Status all_reduce(void* values, std::size_t count, const coll::Reduction& op);
  // The part of a lost rank is zero.
  Status all_gather(const void* mine, void* all, std::size_t bytes);
  // Gathers parts of bytes_of(rank) bytes from the live ranks, each to its place among all ranks'.
  template <class BytesOf>
  Status gather(coll::Team& team, const void* mine, void* all, BytesOf&& bytes_of);
  // Moves the fabrics to other hosts forward.
  void poll_remote() noexcept;

  // False in a forked child: the state belongs to the parent, and the peers do not know the child.
  bool is_own_process() const noexcept { return getpid() == process; }

  bool has_rank(int rank) const noexcept { return rank >= 0 && rank < members->size(); }

  const pid_t process = getpid();
  std::unique_ptr<OnlyJob> only;  // null: one of LocalRanks
  std::unique_ptr<weft::Members> members;
  std::unique_ptr<tagged::Engine> engine;
  std::unique_ptr<Agreement> agreement;
  Fabrics* fabrics = nullptr;
  HostLanes* local = nullptr;  // inside the host
  std::vector<Route> routes;   // by rank
  std::mutex allocated_mutex;
  std::map<void*, RemoteMemory> allocated;  // where other hosts are; guarded by allocated_mutex
  std::array<detail::Window, kMaxThreads> windows;
  std::array<std::unique_ptr<ThreadState>, kMaxThreads> threads;
  // Numbers of the open exchanges, and of the last one opened. They are assigned in turn, so that a
  // number is reused only long after every rank has closed its last exchange.
  std::set<int> clients;
  int last_client = kNumEngineClients - 1;
  // Allreduces so far: each has a context of its own.
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
