#pragma once
// Lanes: a process's connection to other ranks of its job: lanes that messages travel in, and
// access to memory. There are two kinds. HostLanes (lanes/mapped) lead to ranks of the same host
// through memory that both map. RemoteLanes (lanes/linked) lead to all others over an endpoint of a
// fabric (fabric/endpoint.hpp). Fabrics (lanes/fabrics.hpp) has the lanes to each rank.
//
// Peers are world ranks. Memory that others may reach is named by share(), or inside a host made by
// allocate(), and can be reached until unshare() or release(); its MemoryName can be sent to other
// processes as bytes. cas and fetch_add work on 8-byte-aligned words of allocated or shared memory
// and are atomic against each other and against the owner's own atomics.
//
// Errors: bad_argument (out of the memory's bounds), peer_lost (the owner is gone, which state()
// reports by then), not_permitted (the kernel or the owner refuses), no_memory, corrupt (the peer's
// bytes are not valid).
//
// Between two processes there may be any number of lanes in each direction, identified by their
// channel; each is written by one thread and read by one thread. A lane's ring is made when it
// connects and costs nothing until it is written.
//
// share() gives any memory a name under which the peers may get and put until unshare(), or only
// get if the owner itself cannot write all of it. The target side refuses everything else, and
// nothing is read or written on a peer's behalf once release() or unshare() has returned; both may
// wait for that, at most PEER_TIMEOUT_MS.
//
// Threads: leave: one thread. connect, accept, close_client, allocate, release, share, unshare: any
// thread, and not on a datapath: they may take a lock and wait. describe, state, begin and the
// calls that use it: any number at once, against memory that stays allocated meanwhile.
//
// Tests: tests/lanes/lanes_test.cpp runs over both kinds.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lanes/channel.hpp"
#include "rma/access.hpp"
#include "rma/memory.hpp"
#include "weft/status.hpp"

namespace weft {

namespace transport {
class RemoteLanes;
}

// The limits and sizes of the fabric that lanes go over.
struct LaneLimits {
  std::string_view fabric;  // its name, in WEFT_FABRIC
  std::size_t number = 0;   // of the fabric: 0 inside the host, else its row in fabric/registry.hpp
  // The longest message that travels inside the ring, if that is not WEFT_EAGER_MAX_BYTES.
  std::size_t eager_max = 0;
  // A ring's size at its first message, if that is more than WEFT_RING_MIN_BYTES. An entry has at
  // most a quarter of it, and longer messages are cut.
  std::uint32_t ring_min = 0;
  std::size_t piece_max = ~std::size_t{0};  // the largest of a start_get() or start_put()
};

enum class PeerState { alive, left, dead };

// What is known of a dead peer. ended: its process is no more; unreachable: nothing was heard of it
// for PEER_TIMEOUT_MS, and it may live; other: it was given up for another reason.
enum class Loss : std::uint8_t { other, ended, unreachable };

// The number of peers that one check for lost ones covers, if a check runs every `period_ns`:
// `least`, or more so that each peer is checked 32 times within the timeout of a silent one. So
// thousands of idle peers cost next to nothing.
constexpr std::size_t share_of_check(std::size_t num_peers, std::size_t least,
                                     std::uint64_t period_ns, std::uint64_t timeout_ns) noexcept {
  const std::uint64_t more = num_peers * 32 * period_ns / std::max<std::uint64_t>(timeout_ns, 1);
  return std::min<std::size_t>(num_peers, least + more);
}

// The peers of lanes over a fabric: ranks of the job, or foreign processes (job/members.hpp).
enum class To { members, foreign };

class Lanes {
 public:
  virtual ~Lanes() = default;
  const LaneLimits& limits() const noexcept { return limits_; }
  // The interface that only lanes over a fabric have (lanes/linked/remote_lanes.hpp); null inside
  // the host, where rings are mapped.
  transport::RemoteLanes* remote() const noexcept { return remote_; }
  bool is_mapped() const noexcept { return remote_ == nullptr; }

  // Connects to the peer's ring for this channel; once per peer and channel. The peer may be this
  // process. no_memory: the peer has no room for another ring; it may have later. again: a remote
  // peer has not answered yet; call again after some poll() (or any other error within
  // PEER_TIMEOUT_MS, with a text that names both ends).
  virtual Status connect(int peer, int channel, SendMemory& memory) = 0;
  // Takes the next lane of this client that was connected to this process: its peer and channel, or
  // -1. After an error the lane counts as accepted, and the next call gives another; the peer is -1
  // then if not even that is known. But after no_memory it can be accepted later.
  virtual Status accept(int client, int& peer, int& channel, ReceiveMemory& memory) = 0;
  // Ends all lanes of the client in both directions and gives their memory back. To be called by
  // every process once all have stopped using them (after a barrier); not for client 0.
  virtual void close_client(int client) noexcept = 0;
  // Changes when accept has something to give to any client. Polled on the datapath.
  virtual const std::atomic<std::uint32_t>& connections() const noexcept = 0;

  virtual Status share(void* address, std::size_t bytes, MemoryName& memory) = 0;
  virtual Status unshare(const MemoryName& memory) = 0;

  // Begins an access that ends with `completion`; it and the memory must last until then. Where a
  // processor does it, it is done on return.
  virtual void begin(int peer, const RemoteAccess& access, Completion& completion) noexcept = 0;
  void start_get(int peer, const MemoryName& from, std::size_t offset, void* to, std::size_t bytes,
                 Completion& completion) noexcept {
    begin(peer, {Access::get, from, offset, to, bytes}, completion);
  }
  void start_put(int peer, const MemoryName& to, std::size_t offset, const void* from,
                 std::size_t bytes, Completion& completion) noexcept {
    begin(peer, {Access::put, to, offset, const_cast<void*>(from), bytes}, completion);
  }
  // Complete on return.
  Code get(int peer, const MemoryName& from, std::size_t offset, void* to,
           std::size_t bytes) noexcept {
    return finish(peer, {Access::get, from, offset, to, bytes});
  }
  Code put(int peer, const MemoryName& to, std::size_t offset, const void* from,
           std::size_t bytes) noexcept {
    return finish(peer, {Access::put, to, offset, const_cast<void*>(from), bytes});
  }
  Code put_once(int peer, const MemoryName& to, std::size_t offset, const void* from,
                std::size_t bytes) noexcept {
    return finish(peer, {Access::put_once, to, offset, const_cast<void*>(from), bytes});
  }
  Code cas(int peer, const MemoryName& word, std::size_t offset, std::uint64_t compare,
           std::uint64_t swap, std::uint64_t& previous) noexcept {
    return finish(peer, {Access::cas, word, offset, nullptr, 8, swap, compare, &previous});
  }
  Code fetch_add(int peer, const MemoryName& word, std::size_t offset, std::uint64_t value,
                 std::uint64_t& previous) noexcept {
    return finish(peer, {Access::fetch_add, word, offset, nullptr, 8, value, 0, &previous});
  }

  // Remote peers die silently. The first call for a peer begins to watch it, so ask only about
  // those that are needed. A peer from which nothing arrives for PEER_TIMEOUT_MS is dead, and stays
  // so.
  virtual PeerState state(int peer) noexcept = 0;
  // Notifies peers that this process leaves in good order.
  virtual void leave() noexcept = 0;

 protected:
  Lanes(const LaneLimits& limits, transport::RemoteLanes* remote)
      : limits_(limits), remote_(remote) {}

 private:
  // Polls until it is done.
  Code finish(int peer, const RemoteAccess& access) noexcept;

  const LaneLimits limits_;
  transport::RemoteLanes* const remote_;
};

// The operations that only memory mapped by two processes allows. Threads: as get.
class HostLanes : public Lanes {
 public:
  virtual Status allocate(std::size_t bytes, void*& address, MemoryName& memory) = 0;
  virtual Status release(void* address) = 0;
  // Names `address` by its region if it lies in allocated memory, else as any memory.
  virtual MemoryName describe(const void* address, std::size_t bytes) const noexcept = 0;
  // Makes allocated memory of a peer part of this process's own until unmap(); unsupported where
  // that cannot be.
  virtual Code map(int peer, const MemoryName& memory, MappedMemory& mapped) noexcept = 0;
  // drops: of memory that was left to others.
  virtual void unmap(MappedMemory& mapped, bool drops = false) noexcept = 0;
  // Does as release() for memory that others may use on: it is theirs, with what it has, until the
  // last of them drops it.
  virtual Status leave_to_others(void* address) = 0;

  // Returns true if get and put reach memory of the peer that it has neither allocated nor shared.
  virtual bool can_copy(int peer) noexcept = 0;
  // A record in this process's memory, or in a connected peer's; null if it has none.
  virtual SharedCopy* own_copy(std::uint32_t index) noexcept = 0;
  virtual SharedCopy* peer_copy(int peer, std::uint32_t index) noexcept = 0;

  // A doorbell of this process (lanes/doorbell.hpp), on which it also waits for remote peers.
  virtual std::atomic<std::uint32_t>& sleeping(int doorbell) noexcept = 0;
  // The peer's doorbell 0, if it is on this host, else null.
  virtual std::atomic<std::uint32_t>* peer_sleeping(int peer) noexcept = 0;

 protected:
  using Lanes::Lanes;
};

}  // namespace weft
