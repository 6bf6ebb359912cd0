#pragma once
// Fabric: the contract of a way to reach memory of other processes, as small as RDMA itself. The
// only layer that knows a device. Clients: the transport, and nobody else.
//
// Peers are world ranks. Memory that others may reach is made by allocate() or named by share();
// its RemoteMemory can be sent to other processes as bytes. put and get are
// complete when they return. cas and fetch_add work on 8-byte-aligned words of allocated memory
// only and are atomic against each other and against the owner's own atomics.
//
// Errors: bad_argument (out of the memory's bounds), peer_lost (the owner is gone), not_permitted
// (the kernel or the owner refuses), no_memory, corrupt (the peer's bytes make no sense).
//
// Threads: create, connect, accept, allocate, release: one at a time. get, put, cas, fetch_add: any
// number at once, against memory that stays allocated meanwhile.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "weft/status.hpp"

namespace weft {

// Names memory of a process; plain bytes, checked by whoever uses it.
struct RemoteMemory {
  std::uint64_t address;  // in the owner
  std::uint64_t bytes;
  std::uint32_t region;  // the owner's number of allocated memory; 0: shared, not allocated
  std::uint32_t unused;
};
static_assert(sizeof(RemoteMemory) == 24);

// What a lane that sends to a peer works on.
struct SendMemory {
  std::byte* ring = nullptr;                             // the peer's ring for us, mapped
  const std::atomic<std::uint64_t>* consumed = nullptr;  // the peer counts here what it has read
  std::atomic<std::uint32_t>* sleeping = nullptr;        // the peer's doorbell
};

// What a lane that receives from a peer works on.
struct ReceiveMemory {
  std::byte* ring = nullptr;
  std::atomic<std::uint64_t>* consumed = nullptr;
  std::atomic<std::uint32_t>* sleeping = nullptr;
};

// A copy that two processes share: each claims pieces until none is left. Lies in memory that both
// have mapped, owned by the receiver.
struct SharedCopy {
  std::atomic<std::uint64_t> claimed;     // bytes claimed by either side, from the start
  std::atomic<std::uint64_t> done;        // bytes copied by either side
  std::atomic<std::uint64_t> given_back;  // offset + 1 of a piece the sender cannot copy
  std::atomic<std::uint64_t> given_back_bytes;
  std::atomic<std::uint32_t> failed;       // 1: a copy failed, both sides end with an error
  std::atomic<std::uint32_t> sender_left;  // 1: the sender will not touch the record again
  std::uint64_t padding[3];
};
static_assert(sizeof(SharedCopy) == 64);
inline constexpr std::uint32_t kNumSharedCopies = 256;

enum class PeerState { alive, left, dead };

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual bool reaches(int peer) const noexcept = 0;

  // Opens the way to the peer's ring; once per peer.
  virtual Status connect(int peer, SendMemory& memory) = 0;
  // The next peer that has connected to this process since the last call: its rank, or -1.
  virtual Status accept(int& peer, ReceiveMemory& memory) = 0;
  // Changes when accept has something to give. Polled on the datapath.
  virtual const std::atomic<std::uint32_t>& connections() const noexcept = 0;

  virtual Status allocate(std::size_t bytes, void*& address, RemoteMemory& memory) = 0;
  virtual Status release(void* address) = 0;
  virtual Status share(void* address, std::size_t bytes, RemoteMemory& memory) = 0;
  // Names `address` if it lies in allocated memory, else as shared.
  virtual RemoteMemory describe(const void* address, std::size_t bytes) const noexcept = 0;

  virtual Code get(int peer, const RemoteMemory& from, std::size_t offset, void* to,
                   std::size_t bytes) noexcept = 0;
  virtual Code put(int peer, const RemoteMemory& to, std::size_t offset, const void* from,
                   std::size_t bytes) noexcept = 0;
  // previous: the word's value before. cas stores `swap` if the word equals `compare`.
  virtual Code cas(int peer, const RemoteMemory& word, std::size_t offset, std::uint64_t compare,
                   std::uint64_t swap, std::uint64_t& previous) noexcept = 0;
  virtual Code fetch_add(int peer, const RemoteMemory& word, std::size_t offset,
                         std::uint64_t value, std::uint64_t& previous) noexcept = 0;

  // Whether get and put reach shared (not allocated) memory of the peer.
  virtual bool can_copy(int peer) noexcept = 0;
  // A record in this process's memory, or in a connected peer's; null if this fabric has none.
  virtual SharedCopy* own_copy(std::uint32_t index) noexcept = 0;
  virtual SharedCopy* peer_copy(int peer, std::uint32_t index) noexcept = 0;

  // This process's doorbell: 1 while it may sleep; whoever clears it wakes it.
  virtual std::atomic<std::uint32_t>& sleeping() noexcept = 0;
  // The peer's doorbell once connected in either direction, else null.
  virtual std::atomic<std::uint32_t>* peer_sleeping(int peer) noexcept = 0;
  // Makes peer_sleeping(peer) not null, also where nothing has connected yet.
  virtual Status open_doorbell(int peer) = 0;

  virtual PeerState state(int peer) noexcept = 0;
  // Tells peers that this process leaves in good order.
  virtual void leave() noexcept = 0;
};

}  // namespace weft
