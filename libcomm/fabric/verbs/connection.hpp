#pragma once
// What the verbs fabric keeps per peer: the connection, its lanes, and what is under way on it.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/wait.hpp"
#include "fabric/fabric.hpp"
#include "fabric/verbs/registrations.hpp"
#include "fabric/verbs/wire.hpp"

namespace weft::verbs {

// Held for the time of a request's posting. On a device in software that is a system call, in which
// the kernel may move other data meanwhile, and its owner may share a core with who waits: so that
// one yields soon.
class SpinLock {
 public:
  void lock() noexcept {
    for (int i = 0; taken_.exchange(true, std::memory_order_acquire); ++i)
      i < kSpins ? cpu_relax() : static_cast<void>(sched_yield());
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;
  std::atomic<bool> taken_{false};
};

// A registered stretch of a ring or of its mirror.
struct Chunk {
  std::uint64_t begin = 0, end = 0;
  ibv_mr* mr = nullptr;        // here
  std::uint32_t peer_key = 0;  // writer: of the ring's chunk
};

struct Connection;

// A ring's memory, reserved whole, registered chunk by chunk.
struct LaneMemory {
  std::byte* base = nullptr;
  std::size_t mapped_bytes = 0;
  std::uint32_t ring_bytes = 0;
  std::uint32_t first_bytes = 0;
  int num_chunks = 0;  // that the ring can have
  Chunk chunks[kMaxChunks];

  Status reserve(std::uint32_t bytes, std::uint32_t first);
  Status register_chunk(Registrations& registrations, int index, int access);
  void free() noexcept;
};

// A lane that writes to a peer. Guarded by the fabric's setup lock until opened, then by the
// connection's lock, but for what the comments say.
struct WriteLane {
  enum State { asking, opened, refused };
  Connection* connection = nullptr;
  int channel = 0;
  std::uint32_t number = 0;       // here
  std::uint32_t peer_number = 0;  // the reader's
  State state = asking;
  bool asked = false;
  Code refusal = Code::ok;
  std::uint64_t deadline_ns = 0;
  std::uint32_t seal_half = 0;  // the reader's of the ring's secret
  LaneMemory mirror;
  std::uint64_t peer_address = 0;
  std::atomic<int> ready_chunks{0};        // both ends have registered these; written by poll()
  std::atomic<int> asked_chunks{0};        // registered here; written by the lane's thread
  std::atomic<std::uint64_t> consumed{0};  // written by poll()
  std::atomic<std::uint32_t> sleeping{0};  // nobody: the reader is woken by its own device
};

// A lane that a peer writes. Made and used by poll().
struct ReadLane {
  Connection* connection = nullptr;
  int channel = 0;
  std::uint32_t number = 0;       // here
  std::uint32_t peer_number = 0;  // the writer's
  std::uint32_t seal_half = 0;    // the writer's of the ring's secret
  LaneMemory ring;
  bool closed_here = false;                // guarded by the setup lock
  bool closed_there = false;               // the same
  std::uint64_t pending_bytes = 0;         // arrived, but to be counted with what follows
  std::atomic<std::uint64_t> arrived{0};   // written by poll()
  std::atomic<std::uint64_t> consumed{0};  // nobody reads it
  std::atomic<std::uint32_t> sleeping{0};  // as above
};

// The mirror of a lane that has been closed here, which requests on their way may still read.
struct ClosedMirror {
  Connection* connection = nullptr;
  std::uint32_t until = 0;  // the connection's `done` when there are none
  LaneMemory memory;
};

struct Operation;

// One request of an operation; or all of it, before it is cut.
struct Part {
  Operation* operation;
  std::uint64_t here;
  std::uint64_t there;
  std::uint64_t bytes;
  std::uint32_t lkey;
  std::uint32_t rkey;
  std::uint64_t value;  // to store or to add
  std::uint64_t compare;
};

// Memory of a peer as this process may use it (regions.cpp).
struct PeerRegion {
  enum State : std::uint8_t { asking, found, ending };
  State state = asking;
  bool owner_changes = false;  // atomics are the owner's processor's
  std::uint32_t number = 0;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t num_operations = 0;  // not yet ended
  std::vector<Part> waiting;         // whole operations, for the owner's answer

  bool has(const Part& part) const noexcept {
    return is_within(part.there, part.bytes, address, bytes);
  }
};
constexpr std::uint64_t region_name(std::uint32_t number, std::uint32_t key) noexcept {
  return std::uint64_t{number} << 32 | key;
}

// A get, put or atomic, which may take several requests of the device.
struct Operation {
  enum Kind : std::uint8_t { read, write, cas, add };
  Kind kind = read;
  Code code = Code::ok;
  std::uint32_t parts = 0;  // not yet complete; guarded by the connection's lock
  Completion* completion = nullptr;
  PeerRegion* region = nullptr;          // null: shared once
  Registration* registration = nullptr;  // of the memory here; null: bounced
  void* user = nullptr;                  // bounced read: where the bytes go at last
  std::uint32_t user_bytes = 0;
  std::byte* slot = nullptr;  // bounced: registered memory
  Operation* next_free = nullptr;
};

// A request in a send queue, as it would be posted again on another queue pair.
struct Posted {
  Operation* operation = nullptr;  // completes with this request
  std::uint64_t here = 0;
  std::uint64_t there = 0;
  std::uint32_t bytes = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  std::uint32_t immediate = 0;  // in the network's order
  std::uint32_t message = 0;    // its number among those that take a receive of the peer, from 1
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool inlined = false;
  Control control{};  // IBV_WR_SEND

  bool is_message() const noexcept {
    return opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  bool is_read() const noexcept { return opcode == IBV_WR_RDMA_READ || is_atomic(); }
  bool is_atomic() const noexcept {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
};

// One less than a power of two: devices round up, and some take one more than asked for.
inline constexpr std::uint32_t kDepth = 63;         // requests in a send queue
inline constexpr std::uint32_t kSlots = 64;         // numbers of requests, modulo this
inline constexpr std::uint32_t kKeptBack = 8;       // of these, for control messages
inline constexpr std::uint32_t kSignalEvery = 16;   // of unsignalled requests
inline constexpr std::uint32_t kMaxReadDepth = 16;  // gets and atomics at once

struct Connection {
  enum State : std::uint8_t { idle, asking, waiting, answering, ready, failed };
  // Why poll() is to take the queue pair down and make another (mending.cpp).
  enum Break : std::uint8_t {
    none,
    hung_up,
    unanswered,
    stalled,
    asked_anew,
    device_error,
    not_taken
  };

  int peer = 0;
  std::atomic<State> state{idle};  // changed with the setup lock held
  std::atomic<bool> peer_left{false};
  std::string why;  // failed: the reason, for messages; being made: why the last attempt failed
  // There has been a queue pair before, and what was under way on it is kept. With the setup lock.
  std::atomic<bool> mending{false};
  std::string broke;                   // mending: why
  std::uint64_t mend_deadline_ns = 0;  // 0: something has come through since the last break
  std::uint32_t received = 0;          // messages of the peer that have completed here, ever
  std::uint32_t attempts = 0;          // requests for a connection, made
  std::uint32_t peer_attempts = 0;     // and of the peer, heard of
  std::uint32_t peer_received = 0;     // mending: of ours, as the peer says
  Control operands{};                  // of the change that the peer asks for next; of poll()
  std::atomic<std::uint8_t> break_{none};
  rdma_cm_id* id = nullptr;
  ibv_qp* qp = nullptr;
  std::uint32_t qp_number = 0;
  std::uint32_t read_depth = 1;                     // that the peer answers
  std::uint64_t deadline_ns = 0;                    // of connecting
  std::uint64_t attempt_ns = 0;                     // when the present attempt is given up
  std::vector<std::unique_ptr<WriteLane>> writers;  // guarded by the setup lock

  SpinLock lock;  // guards the rest
  std::uint32_t posted = 0;
  std::uint32_t done = 0;  // all up to here have left the send queue
  std::uint32_t unsignalled = 0;
  int post_error = 0;             // why the device takes no request on this queue pair
  std::uint32_t reads = 0;        // gets and atomics in the send queue
  std::uint64_t read_bytes = 0;   // and what they ask for
  std::uint32_t messages = 0;     // that take a receive of the peer, posted ever
  std::unique_ptr<Posted[]> log;  // of the last kSlots requests; made with the first queue pair
  std::deque<Control> controls;   // no room yet
  std::deque<Part> parts;         // no room yet
  std::unordered_map<std::uint64_t, PeerRegion> regions;  // by region_name
  std::unordered_map<std::uint32_t, Operation*> changes;  // that the peer has been asked for
  std::uint32_t next_change = 0;
  bool probing = false;
  std::uint64_t probe_ns = 0;              // when it was posted, or would have been
  std::atomic<std::uint64_t> heard_ns{0};  // a request of ours was last acknowledged

  std::uint32_t room() const noexcept { return kDepth - (posted - done); }
};

}  // namespace weft::verbs
