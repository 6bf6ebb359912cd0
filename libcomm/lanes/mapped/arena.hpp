#pragma once
// Arena: the memory that one process shares with the other processes of its host. One memfd, never
// a file with a name, so nothing is left when a process ends in any manner; peers open it through
// /proc/PID/fd/FD. It holds the doorbell, the rings that peers write messages into, the words
// through which they return credit, and the records of shared copies. Pages cost memory only once
// touched.
//
// Layout, all offsets computed by ArenaLayout from two numbers that the job's processes share:
//   header | doorbells of all local processes | their marks that they left | lane controls, one a
//   local peer | records of shared copies |
//   requests for atomic operations, one a local peer | directory of lanes | table of shared memory
//   | rings, one a local peer | memory for the rings of lanes
// Doorbells and marks are used in the arena of the host's first process alone, which all map when
// they start: so each reaches all others without mapping one arena for each. The engine's lanes
// have a control and a ring each; all other lanes are made by their writer,
// which takes an entry of the directory and as much of the memory behind, that both sides then map.
//
// Tests: tests/lanes/host_lanes_test.cpp, tests/fuzz/lanes_accept.cpp.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/os/descriptor.hpp"
#include "base/os/mapping.hpp"
#include "lanes/channel.hpp"
#include "rma/memory.hpp"
#include "weft/status.hpp"

namespace weft::shm {

inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::uint64_t kArenaMagic = 0x3630'6e65'7261'5457u;  // version 6

// First page of the arena.
struct ArenaHeader {
  std::uint64_t magic;
  std::uint64_t total_bytes;
  std::uint32_t num_local;
  std::uint32_t ring_bytes;
  // Number of lanes that peers have connected to this process. Peers add, the owner reads.
  alignas(kLineBytes) std::atomic<std::uint32_t> num_connected;
  // Entries of the directory that have been in use. Peers add.
  alignas(kLineBytes) std::atomic<std::uint32_t> num_entries;
  // The bytes that rings take now, of the most that the owner allows. Peers add, the owner takes
  // back.
  std::atomic<std::uint64_t> lane_bytes;
  std::uint64_t lane_limit;
  // The start of the part of the lane memory that no entry has had. Peers add.
  std::atomic<std::uint64_t> lane_end;
  // Grows with every request for an atomic operation. Peers add, the owner sleeps on it.
  alignas(kLineBytes) std::atomic<std::uint32_t> atomic_bell;
};
static_assert(sizeof(ArenaHeader) == 4 * kLineBytes);

// As in lanes/doorbell.hpp. Threads of the owner arm it, anybody rings.
struct Doorbell {
  alignas(kLineBytes) std::atomic<std::uint32_t> sleeping;
};

// A lane to the owner that is not the engine's. Free again, an entry serves the next lane: in its
// old place if that has room for the ring, else in a new one.
struct LaneEntry {
  enum State : std::uint32_t { kUnused, kTaken, kConnected, kFree };
  // Peers take entries (kUnused or kFree to kTaken) and connect them; the owner frees them.
  alignas(kLineBytes) std::atomic<std::uint32_t> state;
  std::uint32_t writer;  // local rank
  std::uint32_t channel;
  std::uint32_t ring_bytes;
  std::uint64_t offset;  // of the ring in the lane memory
  std::uint64_t room;    // bytes from there on that are this entry's
  // Written by the owner, which reads the ring: bytes consumed so far.
  alignas(kLineBytes) std::atomic<std::uint64_t> consumed;
};
static_assert(sizeof(LaneEntry) == 2 * kLineBytes);

// Memory that the owner has shared without having allocated it.
struct SharedMemory {
  std::atomic<std::uint64_t> number;  // as number_of() names it; 0: not in use
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t is_writable;  // 0: peers may only read it
  std::uint32_t unused;
};
static_assert(sizeof(SharedMemory) == 32);
inline constexpr std::uint32_t kMaxShared = 4096;
inline constexpr std::uint32_t kSharedBit = 1u << 31;  // of a region's number: slot in the low bits

// A request of one local peer to the owner, on memory that it shares (atomics.hpp).
struct AtomicRequest {
  enum State : std::uint32_t { kIdle, kPosted, kDone };
  // The peer posts and takes back, and writes all fields but the last two while it is idle; the
  // owner completes, and writes those two before it does.
  alignas(kLineBytes) std::atomic<std::uint32_t> state;
  enum Kind : std::uint32_t { kFetchAdd, kCas, kRead, kWrite };
  std::uint32_t kind;
  MemoryName word;  // kRead and kWrite: any number of bytes
  // kRead and kWrite: address and number of memory that the peer has allocated, to copy to or from.
  std::uint64_t operand;
  std::uint64_t swap;
  std::uint64_t previous;
  std::uint32_t code;
};
static_assert(sizeof(AtomicRequest) == kLineBytes);

inline constexpr std::uint32_t kMaxLanes = 16384;
inline constexpr std::uint32_t kMaxRingBytes = 1u << 30;
// Addresses of the lane memory, which cost nothing. Rooms are powers of two, and an entry's next
// one is at least twice the last, so no entry ever has more than 4 GiB of rooms, and they cannot
// run out, however many lanes of whatever sizes come and go.
inline constexpr std::uint64_t kLaneAddresses = std::uint64_t{kMaxLanes} * 4 * kMaxRingBytes;

// The words between the owner and one local peer outside the ring.
struct LaneControl {
  // Written by the peer, which reads the owner's messages: bytes of the ring consumed so far.
  alignas(kLineBytes) std::atomic<std::uint64_t> consumed;
  // Written by the peer, which sends to the owner: 1 once its lane is in use.
  alignas(kLineBytes) std::atomic<std::uint32_t> connected;
  // The number of copies from or to memory that the owner shares that the peer's threads are in, by
  // the parity of `era` when they began. The owner changes the era and waits for those before.
  alignas(kLineBytes) std::atomic<std::uint32_t> era;
  std::atomic<std::uint32_t> copying[2];
};
static_assert(sizeof(LaneControl) == 3 * kLineBytes);

struct ArenaLayout {
  std::uint32_t num_local;
  std::uint32_t ring_bytes;  // the largest size of a ring

  static std::size_t round_to_pages(std::size_t bytes) noexcept {
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  std::size_t doorbells() const noexcept { return sizeof(ArenaHeader); }
  std::size_t marks() const noexcept {
    return doorbells() + std::size_t{num_local} * kNumDoorbells * sizeof(Doorbell);
  }
  std::size_t controls() const noexcept {
    return round_to_pages(marks() + num_local * sizeof(std::atomic<std::uint32_t>));
  }
  std::size_t copies() const noexcept { return controls() + num_local * sizeof(LaneControl); }
  std::size_t requests() const noexcept { return copies() + kNumSharedCopies * sizeof(SharedCopy); }
  std::size_t directory() const noexcept {
    return round_to_pages(requests() + num_local * sizeof(AtomicRequest));
  }
  std::size_t shared() const noexcept { return directory() + kMaxLanes * sizeof(LaneEntry); }
  std::size_t rings() const noexcept { return shared() + kMaxShared * sizeof(SharedMemory); }
  // One page beyond the ring: the mark that sends the reader back to the start may lie there.
  static std::size_t stride(std::uint32_t bytes) noexcept {
    return std::size_t{bytes} + kPageBytes;
  }
  // The bytes that are mapped at once. The lane memory begins here.
  std::size_t mapped() const noexcept { return rings() + num_local * stride(ring_bytes); }
};

// A mapped arena: one's own or a peer's. Unmaps at destruction.
class Arena {
 public:
  // Makes this process's arena, where the rings of lanes take `lane_limit` bytes at most at a time.
  // no_memory: the text has what is exhausted and what to do.
  static Status create(const ArenaLayout& layout, std::size_t lane_limit,
                       std::shared_ptr<Arena>& arena);
  // Maps a peer's. The peer's header is checked against `layout` (corrupt). Ranks that are threads
  // of one process get its single mapping, which lives until the last of them releases it: then
  // their accesses to it are ordered by the same atomics, for the compiler's tools to see.
  static Status open(int pid, int fd, const ArenaLayout& layout, std::shared_ptr<Arena>& arena);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const noexcept { return file_.get(); }
  ArenaHeader& header() noexcept { return *reinterpret_cast<ArenaHeader*>(at(0)); }
  // Of the host's first process. Those of one number lie together: most processes have the first
  // alone.
  Doorbell& doorbell(std::size_t local, int number) noexcept {
    return reinterpret_cast<Doorbell*>(
        at(layout_.doorbells()))[static_cast<std::size_t>(number) * layout_.num_local + local];
  }
  // 1 once the process has left in good order.
  std::atomic<std::uint32_t>& left(std::size_t local) noexcept {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(at(layout_.marks()))[local];
  }
  LaneControl& control(std::size_t local) noexcept {
    return reinterpret_cast<LaneControl*>(at(layout_.controls()))[local];
  }
  SharedCopy& copy(std::size_t index) noexcept {
    return reinterpret_cast<SharedCopy*>(at(layout_.copies()))[index];
  }
  AtomicRequest& request(std::size_t local) noexcept {
    return reinterpret_cast<AtomicRequest*>(at(layout_.requests()))[local];
  }
  std::byte* ring(std::size_t local) noexcept {
    return at(layout_.rings() + local * ArenaLayout::stride(layout_.ring_bytes));
  }
  SharedMemory& shared(std::uint32_t index) noexcept {
    return reinterpret_cast<SharedMemory*>(at(layout_.shared()))[index];
  }
  LaneEntry& entry(std::uint32_t index) noexcept {
    return reinterpret_cast<LaneEntry*>(at(layout_.directory()))[index];
  }

  // As a peer: takes an entry with memory for a ring of this size and maps the ring. The entry is
  // kTaken; the caller fills it and connects it. Entries that name memory outside the arena are
  // passed over. no_memory: there is no room in the arena, or the ring cannot be mapped.
  // is_limited: its memory counts against WEFT_LANE_MEMORY_BYTES, until free_lane().
  Status take_lane(std::uint32_t ring_bytes, bool is_limited, LaneEntry*& entry, std::byte*& ring);
  // Maps the ring that an entry names. corrupt if it does not lie in the arena.
  Status map_lane(LaneEntry& entry, std::uint32_t& ring_bytes, std::byte*& ring);
  void unmap_lane(const std::byte* ring) noexcept;
  // As the owner: the entry and its memory, cleared, are free for others. One that names no ring in
  // the arena stays taken.
  void free_lane(LaneEntry& entry) noexcept;

 private:
  Arena(Mapping mapping, const ArenaLayout& layout, std::size_t total)
      : mapping_(std::move(mapping)), layout_(layout), total_(total) {}
  LaneEntry* take_entry(std::size_t bytes) noexcept;
  bool read_lane(LaneEntry& entry, std::uint64_t& offset, std::uint32_t& ring_bytes) const noexcept;
  Status map_slice(std::uint64_t offset, std::uint32_t ring_bytes, std::byte*& ring);

  std::byte* at(std::size_t offset) noexcept { return mapping_.data() + offset; }

  Mapping mapping_;
  Descriptor file_;  // our own arena's
  int pid_ = 0;      // a peer's arena: the owner's process, and its descriptor there
  int fd_ = -1;
  ArenaLayout layout_;
  std::size_t total_;  // size of the file

  bool is_inside(std::uint64_t offset, std::uint32_t ring_bytes) const noexcept {
    const std::size_t room = total_ - layout_.mapped();
    return offset % kPageBytes == 0 && offset <= room &&
           ArenaLayout::stride(ring_bytes) <= room - offset;
  }

  // One mapping of a ring for all its users in this process, for the same reason as of the arena.
  struct MappedLane {
    Mapping ring;
    int users = 0;
  };
  std::mutex lanes_mutex_;
  // By offset and length: a hostile peer may name one place with two lengths. Guarded by
  // lanes_mutex_.
  std::map<std::pair<std::uint64_t, std::uint32_t>, MappedLane> lanes_;
};

}  // namespace weft::shm
