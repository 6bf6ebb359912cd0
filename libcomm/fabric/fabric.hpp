#pragma once
// Fabric: the contract of a way to reach memory of other processes, as small as RDMA itself. The
// only layer that knows a device. Clients: the transport, and nobody else.
//
// Peers are world ranks. Memory that others may reach is made by allocate() or named by share(),
// and can be reached until release() or unshare(); its MemoryName can be sent to other processes
// as bytes. put and get are complete when they return. cas and fetch_add work on 8-byte-aligned
// words of allocated or shared memory and are atomic against each other and against the owner's own
// atomics.
//
// Errors: bad_argument (out of the memory's bounds), peer_lost (the owner is gone, which state()
// says by then), not_permitted (the kernel or the owner refuses), no_memory, corrupt (the peer's
// bytes make no sense).
//
// Lanes. Between two processes there may be any number of rings in each direction, told apart by
// their channel; each is written by one thread and read by one thread. A ring's memory is made when
// its lane connects and costs nothing until it is written.
//
// Mapped and remote. Where rings cannot be mapped (every fabric that crosses hosts), the writer
// builds entries in a mirror of the ring in its own memory, and post() has them written to the
// ring, followed by a count that the reader sees as ReceiveMemory::arrived. The reader looks at
// nothing beyond that count, so nothing relies on the order
// in which the bytes of one write become visible; writes of one lane must become visible in the
// order of posting (a fabric that cannot promise this keeps back the count until it is true).
// Credit goes back by return_credit(). Nothing moves but by poll(), which every waiting process
// calls, and its watcher (fabric/watcher.hpp) while it sleeps or computes.
//
// Remote memory. share() gives any memory a name under which the peers may get and put until
// unshare(), or only get if the owner itself cannot write all of it; region and extra are the
// fabric's (such as the key that the device wants). The owner's side refuses everything else, and
// nothing is read or written on a peer's behalf once release() or unshare() has returned; both may
// wait for that, at most PEER_TIMEOUT_MS. share_once() is for one transfer to a peer that gets it
// and says when it is done, before unshare(): it costs less, and promises less. Nobody can put
// there, but a fabric may leave this memory, and what lies beside it, readable to who knows its
// name, also for some time after unshare().
//
// Remote peers die silently. The first call of state(peer) begins to watch that peer, so ask only
// about those that are needed. A peer not heard of for PEER_TIMEOUT_MS is dead, and stays so.
// disconnect() then ends all that is under way with it.
//
// Threads: create and leave: one thread. connect, accept, close_client, allocate, release, share,
// admit, forget: any thread, and not on a datapath: they may take a lock and wait. get, put, cas,
// fetch_add, can_copy, state: any number at once, against memory that stays allocated meanwhile.
// post and return_credit: the lane's thread. poll, push, arm, start_get, start_put, disconnect: any
// thread.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "weft/status.hpp"

namespace weft {

class Watcher;
struct ProcessName;

// Names memory of a process; plain bytes, checked by whoever uses it.
struct MemoryName {
  std::uint64_t address;  // in the owner
  std::uint64_t bytes;
  std::uint32_t region;  // the owner's number of allocated or shared memory; 0: any other
  std::uint32_t extra;   // the fabric's, along with region
};
static_assert(sizeof(MemoryName) == 24);
constexpr std::uint64_t number_of(const MemoryName& memory) noexcept {
  return std::uint64_t{memory.extra} << 32 | memory.region;
}

// Whether [first, first + count) lies in [address, address + bytes), whatever a peer says of it.
constexpr bool is_within(std::uint64_t first, std::uint64_t count, std::uint64_t address,
                         std::uint64_t bytes) noexcept {
  const std::uint64_t offset = first - address;
  return first >= address && offset <= bytes && count <= bytes - offset;
}

// Which ring between two processes: whose it is and which threads are at its ends. The first
// clients are the tagged engine's, with threads 0; the others are exchanges of the transport.
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
// The channel of the same two threads the other way round.
constexpr int reverse_channel(int number) noexcept {
  const Channel channel = channel_of(number);
  return channel_number({channel.client, channel.reader, channel.writer});
}

// A doorbell per thread of a process, whichever client it waits for; 0 is also the engine's.
inline constexpr int kNumDoorbells = 256;
constexpr int reader_doorbell(int channel) noexcept { return channel_of(channel).reader; }
constexpr int writer_doorbell(int channel) noexcept { return channel_of(channel).writer; }

// What a lane that sends to a peer works on.
struct SendMemory {
  std::byte* ring = nullptr;  // the peer's ring for us, mapped; remote: our mirror of it
  const std::atomic<std::uint64_t>* consumed = nullptr;  // the peer counts here what it has read
  std::atomic<std::uint32_t>* sleeping = nullptr;        // the doorbell of the ring's reader
  // Set by the caller of connect: the largest that the ring can get, a multiple of 4096; 0 for
  // WEFT_RING_MAX_BYTES, which is what channel 0 has. A fabric may make it less.
  std::uint32_t ring_bytes = 0;
  void* lane = nullptr;  // remote: for post()
  // Remote: `ring` has only so many bytes, the rest comes from Fabric::whole_ring().
  std::uint32_t first_bytes = 0;
};

// Which lanes of one reader have something new, so that it looks at none of the others. The fabric
// lists, under its lock; the reader takes all at once.
struct Arrival {
  std::atomic<bool> is_listed{true};  // so nobody lists it before the reader begins
  Arrival* next = nullptr;
  void* reader = nullptr;  // the reader's own
};
class Arrivals {
 public:
  // The reader's first call for a lane, which is listed for whatever may have arrived before.
  void begin(Arrival& arrival, void* reader) noexcept {
    arrival.reader = reader;
    // release: pairs with the exchange of who lists it.
    arrival.is_listed.store(false, std::memory_order_release);
    list(arrival);
  }
  // After what has arrived was counted. acq_rel: who takes the lane off the list first looks after
  // that, or finds it listed again.
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

// Where a remote lane's entries arrive: first in little memory, from one entry on in the whole
// ring.
struct WholeRing {
  std::atomic<std::uint64_t> from{~std::uint64_t{0}};  // bytes that have arrived before
  std::byte* ring = nullptr;                           // set before the bytes behind are counted
};

// What a lane that receives from a peer works on.
inline constexpr std::uint64_t kNeverRestarted = ~std::uint64_t{0};
struct ReceiveMemory {
  std::byte* ring = nullptr;
  std::atomic<std::uint64_t>* consumed = nullptr;
  std::atomic<std::uint32_t>* sleeping = nullptr;  // the doorbell of the ring's writer
  std::uint32_t ring_bytes = 0;                    // as the writer chose it, checked
  // Remote: how many bytes of entries have been written since the start, whole entries always. What
  // the ring leaves out at its end does not count.
  const std::atomic<std::uint64_t>* arrived = nullptr;
  void* lane = nullptr;              // remote: for return_credit()
  std::uint32_t first_bytes = 0;     // remote: so many has `ring`
  const WholeRing* whole = nullptr;  // remote
  // Remote: what `arrived` was when the writer last went back to the ring's start without a turn.
  // Set before the bytes that lie there are counted.
  const std::atomic<std::uint64_t>* restarted = nullptr;
  // Remote: what the writer has been told of `consumed` along with other messages; the reader then
  // keeps `consumed` up to date, and calls return_credit() for the rest.
  const std::atomic<std::uint64_t>* told = nullptr;
  // Remote: where the fabric lists this lane, as `arrival`, when something has arrived. Both last
  // as long as the fabric.
  Arrivals* arrivals = nullptr;
  Arrival* arrival = nullptr;
};

// How an asynchronous get or put went. The fabric sets it, any thread may look.
class Completion {
 public:
  bool is_done() const noexcept { return state_.load(std::memory_order_acquire) != kPending; }
  Code code() const noexcept { return static_cast<Code>(state_.load(std::memory_order_acquire)); }
  void reset() noexcept { state_.store(kPending, std::memory_order_relaxed); }
  // release: the data before it; pairs with the acquires above.
  void set(Code code) noexcept {
    state_.store(static_cast<std::uint32_t>(code), std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t kPending = 0x100;
  std::atomic<std::uint32_t> state_{kPending};
};

// Allocated memory of a peer, all of it, as it is mapped here.
struct MappedMemory {
  std::byte* data = nullptr;
  std::uint64_t address = 0;  // in the owner
  std::uint64_t bytes = 0;
  const std::atomic<std::uint64_t>* current = nullptr;  // the owner's; not `number`: released
  std::uint64_t number = 0;                             // number_of() what was mapped
  int peer = -1;
  void* mapping = nullptr;  // the fabric's

  bool is_valid() const noexcept {
    return data != nullptr && current->load(std::memory_order_acquire) == number;
  }
  // Where `memory` is here, or null if it is not all of this.
  std::byte* find(const MemoryName& memory) const noexcept {
    return is_within(memory.address, memory.bytes, address, bytes)
               ? data + (memory.address - address)
               : nullptr;
  }
};

// A copy that two processes share: each claims pieces until none is left. Lies in memory that both
// have mapped, owned by the receiver.
struct alignas(64) SharedCopy {
  std::atomic<std::uint64_t> claimed;     // bytes claimed by either side, from the start
  std::atomic<std::uint64_t> done;        // bytes copied by either side
  std::atomic<std::uint64_t> given_back;  // offset + 1 of a piece the sender cannot copy
  std::atomic<std::uint64_t> given_back_bytes;
  std::atomic<std::uint32_t> failed;       // 1: a copy failed, both sides end with an error
  std::atomic<std::uint32_t> sender_left;  // 1: the sender will not touch the record again
};
static_assert(sizeof(SharedCopy) == 64);
inline constexpr std::uint32_t kNumSharedCopies = 256;

enum class PeerState { alive, left, dead };

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual bool reaches(int peer) const noexcept = 0;

  // Opens the way to the peer's ring for this channel; once per peer and channel. The peer may be
  // this process. no_memory: the peer has no room for another ring; it may have later. again: a
  // remote peer has not answered yet; call again after some poll() (or any other error within
  // PEER_TIMEOUT_MS, with a text that names both ends).
  virtual Status connect(int peer, int channel, SendMemory& memory) = 0;
  // The next lane of this client that was connected to this process: its peer and channel, or -1.
  // After an error the lane counts as accepted, and the next call gives another; the peer is -1
  // then if not even that could be told. But after no_memory it can be accepted later.
  virtual Status accept(int client, int& peer, int& channel, ReceiveMemory& memory) = 0;
  // Ends all lanes of the client in both directions and gives their memory back. To be called by
  // every process once all have stopped using them (after a barrier); not for client 0.
  virtual void close_client(int client) noexcept = 0;
  // Changes when accept has something to give to any client. Polled on the datapath.
  virtual const std::atomic<std::uint32_t>& connections() const noexcept = 0;

  virtual Status allocate(std::size_t bytes, void*& address, MemoryName& memory) = 0;
  virtual Status release(void* address) = 0;
  virtual Status share(void* address, std::size_t bytes, MemoryName& memory) = 0;
  virtual Status unshare(const MemoryName& memory) = 0;
  virtual Status share_once(void* address, std::size_t bytes, MemoryName& memory) {
    return share(address, bytes, memory);
  }
  // Names `address` by its region if it lies in allocated memory, else as any memory.
  virtual MemoryName describe(const void* address, std::size_t bytes) const noexcept = 0;

  virtual Code get(int peer, const MemoryName& from, std::size_t offset, void* to,
                   std::size_t bytes) noexcept = 0;
  virtual Code put(int peer, const MemoryName& to, std::size_t offset, const void* from,
                   std::size_t bytes) noexcept = 0;
  // previous: the word's value before. cas stores `swap` if the word equals `compare`.
  virtual Code cas(int peer, const MemoryName& word, std::size_t offset, std::uint64_t compare,
                   std::uint64_t swap, std::uint64_t& previous) noexcept = 0;
  virtual Code fetch_add(int peer, const MemoryName& word, std::size_t offset, std::uint64_t value,
                         std::uint64_t& previous) noexcept = 0;

  // Begins a get or put whose end `completion` tells; it and the memory must last until then. Where
  // a processor does the copy, it is done on return.
  virtual void start_get(int peer, const MemoryName& from, std::size_t offset, void* to,
                         std::size_t bytes, Completion& completion) noexcept {
    completion.set(get(peer, from, offset, to, bytes));
  }
  virtual void start_put(int peer, const MemoryName& to, std::size_t offset, const void* from,
                         std::size_t bytes, Completion& completion) noexcept {
    completion.set(put(peer, to, offset, from, bytes));
  }
  // Makes allocated memory of a peer part of this process's own until unmap(); unsupported where
  // that cannot be.
  virtual Code map(int, const MemoryName&, MappedMemory&) noexcept { return Code::unsupported; }
  virtual void unmap(MappedMemory&) noexcept {}

  // Whether get and put reach memory of the peer that it has not allocated.
  virtual bool can_copy(int peer) noexcept = 0;
  // A record in this process's memory, or in a connected peer's; null if this fabric has none.
  virtual SharedCopy* own_copy(std::uint32_t index) noexcept = 0;
  virtual SharedCopy* peer_copy(int peer, std::uint32_t index) noexcept = 0;

  // A doorbell of this process (doorbell.hpp).
  virtual std::atomic<std::uint32_t>& sleeping(int doorbell) noexcept = 0;
  // The peer's doorbell 0 once connected in either direction, else null.
  virtual std::atomic<std::uint32_t>* peer_sleeping(int peer) noexcept = 0;
  // Makes peer_sleeping(peer) not null, also where nothing has connected yet.
  virtual Status open_doorbell(int peer) = 0;

  // The rest is for remote fabrics.

  // False: rings are not mapped, and the calls below are needed.
  virtual bool mapped() const noexcept { return true; }
  // The longest message that travels inside the ring, if that is not WEFT_EAGER_MAX_BYTES; and the
  // largest piece of a start_get or start_put.
  virtual std::size_t eager_max() const noexcept { return 0; }
  // A ring's size at its first message, if that is more than WEFT_RING_MIN_BYTES. An entry has at
  // most a quarter of it, and longer messages are cut.
  virtual std::uint32_t ring_min() const noexcept { return 0; }
  virtual std::size_t piece_max() const noexcept { return ~std::size_t{0}; }
  // Writes the mirror's bytes [offset, offset + bytes), whole entries, to the ring and counts them
  // as arrived. The mirror's bytes must not change before credit for them has come back. Nothing
  // comes of it once the peer is lost, which state() tells. may_hold: the fabric may keep it back,
  // to send what follows along with it, until something else is posted on the lane, poll() or
  // push(), or the watcher comes, about 100 us later.
  virtual void post(void*, std::size_t, std::size_t, [[maybe_unused]] bool may_hold) noexcept {}
  // Sends what is kept back. True: there was something.
  virtual bool push() noexcept { return false; }
  // All of a lane's mirror, which the next post is the first to lie in, at its start; what was
  // posted before stays where it was. Null: there is no memory; where that lasts, the peer is lost.
  virtual std::byte* whole_ring(void*) noexcept { return nullptr; }
  // From now on, until the fabric's end or null, `watcher` looks after it.
  virtual void set_watcher(Watcher*) noexcept {}
  // The lane's next post is for the ring's start, without the mark of a turn, which the reader is
  // told. Only where all that was posted has been consumed.
  virtual void restart(void*) noexcept {}
  // Writes `word` to the `consumed` of the lane's writer; a later word replaces an earlier one.
  virtual void return_credit(void*, std::uint64_t) noexcept {}
  // Moves everything forward once: arrivals, credit, connections, completions, signs of life. Rings
  // this process's doorbells for what it finds.
  virtual void poll() noexcept {}
  // Readable when poll() has something to do, if arm() was true after the last poll(). arm() is
  // false where there is something already.
  virtual int wait_fd() const noexcept { return -1; }
  virtual bool arm() noexcept { return true; }
  // Ends what is under way with the peer: every start_get and start_put with it is done when this
  // returns (peer_lost), and no byte is written to this process's memory on its behalf any more.
  virtual void disconnect(int) noexcept {}

  // Strangers, processes of other jobs (job.hpp): of fabrics that were made to reach these. What
  // one must know to reach this process over this fabric; empty: nobody can.
  virtual std::string card() const { return {}; }
  // From now on `number` is the stranger with this name and card. It must not open a link before
  // that. unsupported: no way leads there; corrupt: that is no card.
  virtual Status admit(int, const ProcessName&, std::string_view) { return Code::unsupported; }
  // Whether the two have ever had a link.
  virtual bool has_met(int) const noexcept { return false; }
  // The number is nobody's any more. What its lanes have left in Arrivals is to be taken next.
  virtual void forget(int) noexcept {}

  virtual PeerState state(int peer) noexcept = 0;
  // Tells peers that this process leaves in good order.
  virtual void leave() noexcept = 0;
};

}  // namespace weft
