#pragma once
// Arena: the memory that one process lends to the other processes of its host. One memfd, never a
// file with a name, so nothing is left when a process ends in whatever way; peers open it through
// /proc/PID/fd/FD. It holds the doorbell, the rings that peers write messages into, the words
// through which they return credit, and the records of shared copies. Pages cost memory only once
// touched.
//
// Layout, all offsets computed by ArenaLayout from two numbers that the job's processes share:
//   header | lane controls, one a local peer | records of shared copies | rings, one a local peer
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/fabric.hpp"
#include "weft/status.hpp"

namespace weft::shm {

inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::uint64_t kArenaMagic = 0x3130'6e65'7261'5457u;  // version 1

// First page of the arena.
struct ArenaHeader {
  std::uint64_t magic;
  std::uint64_t total_bytes;
  std::uint32_t num_local;
  std::uint32_t ring_bytes;
  // 1 while the owner may sleep. Owner sets it, ringers clear it and wake the owner.
  alignas(kLineBytes) std::atomic<std::uint32_t> sleeping;
  // Number of peers that have connected a lane to this process. Peers add, the owner reads.
  alignas(kLineBytes) std::atomic<std::uint32_t> num_connected;
};
static_assert(sizeof(ArenaHeader) == 3 * kLineBytes);

// What the owner and one local peer tell each other outside the ring.
struct LaneControl {
  // Written by the peer, which reads the owner's messages: bytes of the ring consumed so far.
  alignas(kLineBytes) std::atomic<std::uint64_t> consumed;
  // Written by the peer, which sends to the owner: 1 once its lane is in use.
  alignas(kLineBytes) std::atomic<std::uint32_t> connected;
  // Written by the peer: 1 once it left in good order.
  std::atomic<std::uint32_t> peer_left;
};
static_assert(sizeof(LaneControl) == 2 * kLineBytes);

struct ArenaLayout {
  std::uint32_t num_local;
  std::uint32_t ring_bytes;  // the largest size of a ring

  std::size_t controls() const noexcept { return kPageBytes; }
  std::size_t copies() const noexcept { return controls() + num_local * sizeof(LaneControl); }
  std::size_t rings() const noexcept {
    const std::size_t end = copies() + kNumSharedCopies * sizeof(SharedCopy);
    return (end + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  // One page beyond the ring: the mark that sends the reader back to the start may lie there.
  std::size_t ring_stride() const noexcept { return ring_bytes + kPageBytes; }
  std::size_t total() const noexcept { return rings() + num_local * ring_stride(); }
};

// A mapped arena: one's own or a peer's. Unmaps at destruction.
class Arena {
 public:
  // Makes this rank's arena. no_memory says what is exhausted and what to do.
  static Status create(const ArenaLayout& layout, std::shared_ptr<Arena>& arena);
  // Maps a peer's. The peer's header is checked against `layout` (corrupt). Ranks that are threads
  // of one process get the one mapping there is, which lives until the last of them lets go: then
  // what they do to it is ordered by the same atomics, for the compiler's tools to see.
  static Status open(int pid, int fd, const ArenaLayout& layout, std::shared_ptr<Arena>& arena);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const noexcept { return fd_; }
  ArenaHeader& header() noexcept { return *reinterpret_cast<ArenaHeader*>(base_); }
  LaneControl& control(std::size_t local) noexcept {
    return reinterpret_cast<LaneControl*>(base_ + layout_.controls())[local];
  }
  SharedCopy& copy(std::size_t index) noexcept {
    return reinterpret_cast<SharedCopy*>(base_ + layout_.copies())[index];
  }
  std::byte* ring(std::size_t local) noexcept {
    return base_ + layout_.rings() + local * layout_.ring_stride();
  }

 private:
  Arena(std::byte* base, int fd, const ArenaLayout& layout)
      : base_(base), fd_(fd), layout_(layout) {}

  std::byte* base_;
  int fd_;  // -1 for a peer's
  ArenaLayout layout_;
};

}  // namespace weft::shm
