#pragma once
// Channels: the number of a lane between two processes, the memory that its two ends use, and the
// list of a reader's lanes that have something new.
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft {

// The identity of a ring between two processes: its client and the threads at its ends. Client 0 is
// the tagged engine, with threads 0; the others are exchanges of the transport.
struct Channel {
  std::uint16_t client;
  std::uint8_t writer;
  std::uint8_t reader;
};
inline constexpr int kNumEngineClients = 9;
inline constexpr int kMaxClients = 0x7fff;

constexpr int channel_number(Channel channel) noexcept {
  return channel.client << 16 | channel.writer << 8 | channel.reader;
}
constexpr Channel channel_of(int number) noexcept {
  return {static_cast<std::uint16_t>(number >> 16), static_cast<std::uint8_t>(number >> 8),
          static_cast<std::uint8_t>(number)};
}
constexpr bool is_engine_channel(int number) noexcept {
  return channel_of(number).client < kNumEngineClients;
}
// The channel of the same two threads in the other direction.
constexpr int reverse_channel(int number) noexcept {
  const Channel channel = channel_of(number);
  return channel_number({channel.client, channel.reader, channel.writer});
}

// A doorbell per thread of a process, whichever client it waits for; 0 is also the engine's.
inline constexpr int kNumDoorbells = 256;
constexpr int reader_doorbell(int channel) noexcept { return channel_of(channel).reader; }
constexpr int writer_doorbell(int channel) noexcept { return channel_of(channel).writer; }

// The memory that a lane uses that sends to a peer.
struct SendMemory {
  std::byte* ring = nullptr;  // the peer's ring for us, mapped; remote: our mirror of it
  const std::atomic<std::uint64_t>* consumed = nullptr;  // the peer's count of read bytes
  std::atomic<std::uint32_t>* sleeping = nullptr;        // the doorbell of the ring's reader
  // Set by the caller of connect: the largest size that the ring can get, a multiple of 4096; 0 for
  // WEFT_RING_MAX_BYTES, which channel 0 has. A fabric may make it less.
  std::uint32_t ring_bytes = 0;
  void* lane = nullptr;  // remote: for post()
  // Remote: the size of `ring`; the full ring comes from RemoteLanes::full_ring().
  std::uint32_t initial_bytes = 0;
};

// The list of one reader's lanes that have something new, so that it polls none of the others. The
// fabric adds lanes, under its lock; the reader takes all at once.
struct Arrival {
  std::atomic<bool> is_listed{true};  // so that it is not listed before the reader begins
  Arrival* next = nullptr;
  void* reader = nullptr;  // the reader's own
};
class Arrivals {
 public:
  // The reader's first call for a lane, which is listed for whatever may have arrived before.
  void begin(Arrival& arrival, void* reader) noexcept {
    arrival.reader = reader;
    // release: pairs with the exchange of the thread that lists it.
    arrival.is_listed.store(false, std::memory_order_release);
    list(arrival);
  }
  // Call after what has arrived was counted. acq_rel: a reader that takes the lane off the list
  // first polls after that, or finds it listed again.
  void list(Arrival& arrival) noexcept {
    if (arrival.is_listed.exchange(true, std::memory_order_acq_rel)) return;
    arrival.next = head_.load(std::memory_order_relaxed);
    while (!head_.compare_exchange_weak(arrival.next, &arrival, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
  }
  // The last listed first, each with its next; null: none.
  Arrival* take() noexcept {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    return head_.exchange(nullptr, std::memory_order_acquire);
  }

 private:
  std::atomic<Arrival*> head_{nullptr};
};

// The memory where a remote lane's entries arrive: first the initial ring, from one entry on the
// full ring.
struct FullRing {
  std::atomic<std::uint64_t> from{~std::uint64_t{0}};  // bytes that have arrived before
  std::byte* ring = nullptr;                           // set before the bytes behind are counted
};

// The memory that a lane uses that receives from a peer.
inline constexpr std::uint64_t kNeverRestarted = ~std::uint64_t{0};
struct ReceiveMemory {
  std::byte* ring = nullptr;
  std::atomic<std::uint64_t>* consumed = nullptr;
  std::atomic<std::uint32_t>* sleeping = nullptr;  // the doorbell of the ring's writer
  std::uint32_t ring_bytes = 0;                    // as the writer chose it, checked
  // Remote: the bytes of entries written since the start, whole entries always. What the ring
  // leaves out at its end does not count.
  const std::atomic<std::uint64_t>* arrived = nullptr;
  void* lane = nullptr;             // remote: for return_credit()
  std::uint32_t initial_bytes = 0;  // remote: so many has `ring`
  const FullRing* full = nullptr;   // remote
  // Remote: the value of `arrived` when the writer last returned to the ring's start without a wrap
  // mark. Set before the bytes that lie there are counted.
  const std::atomic<std::uint64_t>* restarted = nullptr;
  // Remote: the part of `consumed` that was reported to the writer along with other messages; the
  // reader then keeps `consumed` up to date, and calls return_credit() for the difference.
  const std::atomic<std::uint64_t>* reported = nullptr;
  // Remote: where the fabric lists this lane, as `arrival`, when something has arrived. Both last
  // as long as the fabric.
  Arrivals* arrivals = nullptr;
  Arrival* arrival = nullptr;
};

}  // namespace weft
