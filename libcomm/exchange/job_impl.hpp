#pragma once
// The inside of the public Job: what its threads keep for themselves, and what exchanges need of
// it.
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "coll/coll.hpp"
#include "fabric/fabric.hpp"
#include "fabric/registry.hpp"
#include "job/job.hpp"
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
  std::byte* find(Fabric& fabric, const RemoteMemory& memory, Code& code) noexcept {
    const std::uint32_t region = memory.keys[0].region;
    MappedMemory& entry = entries_[region % kNumEntries];
    if (entry.region == region && entry.peer == memory.owner && entry.is_valid()) [[likely]] {
      std::byte* data = entry.find(fabric_memory(memory));
      code = data != nullptr ? Code::ok : Code::bad_argument;
      return data;
    }
    return map(fabric, entry, memory, code);
  }
  // Makes the window show the memory, which was just found.
  void show(const RemoteMemory& memory) noexcept {
    const MappedMemory& entry = entries_[memory.keys[0].region % kNumEntries];
    window_.data = entry.data;
    window_.address = entry.address;
    window_.bytes = entry.bytes;
    window_.number = entry.number;
    window_.region = entry.region;
    window_.owner = entry.peer;
  }
  static weft::RemoteMemory fabric_memory(const RemoteMemory& memory) noexcept {
    return {memory.address, memory.bytes, memory.keys[0].region, memory.keys[0].extra};
  }

 private:
  static constexpr std::size_t kNumEntries = 61;
  std::byte* map(Fabric& fabric, MappedMemory& entry, const RemoteMemory& memory,
                 Code& code) noexcept;

  detail::Window& window_;
  Fabric* fabric_ = nullptr;
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

// Work that a thread does while it waits in a collective call.
struct Background {
  void (*work)(void*);
  void* argument;
};
inline thread_local const Background* background = nullptr;

struct Job::Impl {
  explicit Impl(std::unique_ptr<weft::Job> opened);
  ~Impl();

  ThreadState& thread(int number) {
    auto& state = threads[static_cast<std::size_t>(number)];
    if (!state) state = std::make_unique<ThreadState>(windows[static_cast<std::size_t>(number)]);
    return *state;
  }
  // The way to a rank: its fabric, and which of a memory's keys that understands.
  struct Way {
    Fabric* fabric = nullptr;  // null: there is none
    std::size_t key = 0;
  };
  const Way& way(int rank) const noexcept { return ways[static_cast<std::size_t>(rank)]; }
  // As the fabric to the memory's owner names it.
  weft::RemoteMemory memory_on_way(const RemoteMemory& memory) const noexcept {
    const std::size_t index = way(memory.owner).key;
    const auto& key = memory.keys[index];
    return {address_for(memory, index), memory.bytes, key.region, key.extra};
  }
  // As who uses keys[index] counts: from the start of its own registration, or in the owner.
  static std::uint64_t address_for(const RemoteMemory& memory, std::size_t index) noexcept {
    return (memory.counted >> index & 1) != 0 ? memory.address - memory.start : memory.address;
  }
  // Enters what a remote fabric calls this memory.
  static void name(RemoteMemory& memory, const Fabric& fabric,
                   const weft::RemoteMemory& made) noexcept;
  Status allocate(std::size_t bytes, void*& address, RemoteMemory& memory);
  Status release(void* address);
  Status share(void* address, std::size_t bytes, RemoteMemory& memory);
  Status unshare(const RemoteMemory& memory);
  // Moves the fabrics to other hosts forward.
  void poll_remote() noexcept;

  bool has_rank(int rank) const noexcept { return rank >= 0 && rank < members->size(); }

  std::unique_ptr<weft::Job> members;
  std::unique_ptr<tagged::Engine> engine;
  std::unique_ptr<coll::Team> team;
  Fabrics* fabrics = nullptr;
  Fabric* local = nullptr;  // inside the host
  std::vector<Way> ways;    // by rank
  std::mutex allocated_mutex;
  std::map<void*, RemoteMemory> allocated;  // where other hosts are; guarded by allocated_mutex
  std::array<detail::Window, kMaxThreads> windows;
  std::array<std::unique_ptr<ThreadState>, kMaxThreads> threads;
  int num_clients = 0;  // exchanges opened so far; the number of the last
};

struct LocalRanks::Impl {
  std::vector<std::unique_ptr<Board>> boards;
};

}  // namespace weft::transport
