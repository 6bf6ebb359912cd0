#pragma once
// Lane: an ordered channel to or from one peer.
// A lane is used by one thread at a time and needs no lock then.
#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/stats.hpp"
#include "fabric/ring.hpp"
#include "lanes/doorbell.hpp"
#include "lanes/lanes.hpp"
#include "weft/copy.hpp"

namespace weft {

inline constexpr std::size_t kShortBytes = 304;  // of data: five lines with the head

// From here on one copy forward is faster than line by line backward: processors then take over
// whole lines without reading them first (`rep movsb` of C libraries).
inline constexpr std::size_t kForwardBytes = 2048;

// Fills an entry's place with data, of which `first` bytes lie in the head's line. The reader polls
// that line, so it comes last, and the others of middling entries from the last to the first:
// else it would be taken back in between.
inline void fill_entry(std::byte* to, const void* from, std::size_t length,
                       std::size_t first) noexcept {
  if (length <= kShortBytes) return detail::copy_small(to, from, length);
  const auto* data = static_cast<const std::byte*>(from);
  if (length >= kForwardBytes) {
    detail::copy(to + first, data + first, length - first);
  } else {
    std::size_t end = length - (length - first) % kEntryAlign;
    detail::copy_small(to + end, data + end, length - end);
    for (; end > first; end -= kEntryAlign)
      std::memcpy(to + end - kEntryAlign, data + end - kEntryAlign, kEntryAlign);
  }
  std::memcpy(to, data, first);
}

// The flags that a reader sends its writer beside credit.
inline constexpr std::uint64_t kHold = 1, kClosed = 2;

// The peer at the lane's other end, for counters; without a rank nothing is counted.
struct LanePeer {
  int rank = -1;
  std::string_view host = {};
};
inline void open_stats(stats::Slot& slot, const Lanes& lanes, LanePeer peer) noexcept {
  if (peer.rank < 0) return;
  char text[sizeof stats::Row::peer];
  const auto end = fmt::format_to_n(text, sizeof text, "rank {} on {}", peer.rank, peer.host).out;
  slot.open(lanes.limits().fabric, {text, static_cast<std::size_t>(end - text)});
}

struct SendLane {
  RingWriter ring;
  stats::Slot stats;
  std::atomic<std::uint32_t>* sleeping = nullptr;
  transport::RemoteLanes* remote = nullptr;  // null: the ring is mapped
  void* remote_lane = nullptr;
  std::uint32_t posted = 0;  // remote: the end of the posted bytes in the mirror
  // Remote: the size that the ring gets from some entry on, and how many more entries may go
  // before; 0: it has it.
  std::uint32_t full_capacity = 0, full_maximum = 0, num_initial = 0;

  bool connected() const noexcept { return sleeping != nullptr; }
  // True if the receiver wants rendezvous only, according to its last credit.
  bool on_hold() const noexcept { return (ring.flags() & kHold) != 0; }
  // True if the receiver has closed the lane, as of the last check: it reads nothing more.
  bool is_closed() const noexcept { return (ring.flags() & kClosed) != 0; }

  // May throw std::bad_alloc, and is not connected() then.
  void open(Lanes& lanes, const SendMemory& memory, std::uint32_t capacity, std::uint32_t maximum,
            LanePeer peer = {}) {
    ring.make_room(capacity);
    if (memory.initial_bytes == 0) {
      ring.attach(memory.ring, capacity, maximum, memory.consumed);
    } else {
      ring.attach(memory.ring, memory.initial_bytes, memory.initial_bytes, memory.consumed);
      full_capacity = capacity;
      full_maximum = maximum;
      num_initial = kNumFirst;
    }
    open_stats(stats, lanes, peer);
    ring.count_in(stats.row());
    sleeping = memory.sleeping;
    remote = lanes.remote();
    remote_lane = memory.lane;
  }

  // Returns the memory for an entry's data, or null: no room now.
  std::byte* reserve(std::size_t length) noexcept {
    if (remote != nullptr) [[unlikely]]
      return reserve_mirror(length);
    return ring.reserve(length);
  }
  // later: it may be kept back, see RemoteLanes::post().
  void publish(std::uint8_t kind, std::size_t length, std::uint64_t immediate,
               bool later = false) noexcept {
    if (remote == nullptr) [[likely]]
      return publish_mapped(kind, length, immediate);
    ring.publish(kind, static_cast<std::uint32_t>(length), immediate);
    post(later);
  }
  // The same where the ring is known to be mapped.
  void publish_mapped(std::uint8_t kind, std::size_t length, std::uint64_t immediate) noexcept {
    ring.publish(kind, static_cast<std::uint32_t>(length), immediate);
    ring_doorbell(*sleeping);
  }

  // False: no room now.
  bool send(std::uint8_t kind, std::uint64_t immediate, const void* data, std::size_t length,
            bool later = false) noexcept {
    std::byte* to = reserve(length);
    if (to == nullptr) return false;
    fill_entry(to, data, length, kInlineBytes);
    publish(kind, length, immediate, later);
    return true;
  }

 private:
  // So many entries a lane has before it takes the memory of a ring: most lanes of a large job
  // never have more.
  static constexpr std::uint32_t kNumFirst = 8;
  // Out of line: over fabrics alone.
  std::byte* reserve_mirror(std::size_t length) noexcept;
  std::byte* reserve_first(std::size_t length) noexcept;
  void post(bool later) noexcept;
};

struct ReceiveLane {
  RingReader ring;
  stats::Slot stats;
  std::atomic<std::uint32_t>* sleeping = nullptr;  // of the sender, which may wait for credit
  std::uint64_t credit_step = 0;
  bool hold = false;  // ask the sender for rendezvous only
  bool closed = false;
  transport::RemoteLanes* remote = nullptr;
  void* remote_lane = nullptr;
  const std::atomic<std::uint64_t>* arrived = nullptr;
  const std::atomic<std::uint64_t>* restarted = nullptr;
  const std::atomic<std::uint64_t>* reported = nullptr;
  Arrivals* arrivals = nullptr;
  Arrival* arrival = nullptr;
  const FullRing* full = nullptr;  // null: it is there
  std::uint32_t full_bytes = 0;

  void open(Lanes& lanes, const ReceiveMemory& memory, std::uint32_t capacity,
            std::uint32_t maximum, LanePeer peer = {}) {
    ring.attach(memory.ring, memory.full == nullptr ? maximum : memory.initial_bytes,
                memory.consumed);
    full = memory.full;
    full_bytes = maximum;
    open_stats(stats, lanes, peer);
    ring.count_in(stats.row());
    sleeping = memory.sleeping;
    credit_step = capacity / 4;
    remote = lanes.remote();
    remote_lane = memory.lane;
    arrived = memory.arrived;
    restarted = memory.restarted;
    reported = memory.reported;
    arrivals = memory.arrivals;
    arrival = memory.arrival;
  }

  // See RingReader::peek.
  bool peek(Entry& entry) noexcept {
    if (arrived != nullptr) [[unlikely]] {
      // acquire: the bytes before the count; pairs with the release in the fabric's poll(). It also
      // makes the restart visible that came before them; there is no other before they are read.
      const std::uint64_t bytes = arrived->load(std::memory_order_acquire);
      if (full != nullptr && full->from.load(std::memory_order_relaxed) == ring.read() &&
          bytes != ring.read()) [[unlikely]]
        ring.move_to(std::exchange(full, nullptr)->ring, full_bytes);
      return ring.peek_arrived(entry, bytes, restarted->load(std::memory_order_relaxed));
    }
    return ring.peek(entry);
  }

  // Remote, after a peek without an entry: true if the reader need not poll again before the fabric
  // lists the lane.
  bool try_idle() noexcept {
    arrival->is_listed.exchange(false, std::memory_order_acq_rel);
    if (Entry entry; !peek(entry)) return !ring.broken();
    return arrival->is_listed.exchange(true, std::memory_order_acq_rel);
  }

  // Gives back credit for popped entries once it is worth it, or at once when idle. Remote: credit
  // costs a message, and with less than a quarter of the ring held back the sender never waits.
  void return_credit(bool idle) noexcept {
    // relaxed: a number of this lane's own bytes.
    if (reported != nullptr) [[unlikely]]
      ring.share_credit(reported->load(std::memory_order_relaxed));
    if (ring.unreturned() >= credit_step || (idle && remote == nullptr && ring.unreturned() != 0))
      return_now();
  }
  void return_now() noexcept {
    const std::uint64_t flags = (hold ? kHold : 0) | (closed ? kClosed : 0);
    if (remote != nullptr) [[unlikely]]
      return return_remote(flags);
    ring.return_credit(flags);
    ring_doorbell(*sleeping);
  }
  // Notifies the sender that nothing more is read.
  void close() noexcept {
    closed = true;
    return_now();
  }

 private:
  void return_remote(std::uint64_t flags) noexcept;
};

}  // namespace weft
