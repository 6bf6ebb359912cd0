#pragma once
// Node: a process's presence among others that come and go. No job and no launcher are needed, and
// many Nodes may live in one process.
//
//   weft::Node server({.name = "server", .secret = secret});
//   server.listen("0.0.0.0:7000");
//   void* table = nullptr;
//   server.allocate(1 << 20, table);                       // peers of this host map it
//   weft::MemoryKey key;
//   server.key(table, weft::kRead, key);                   // send it to those who may read
//
//   weft::Node client({.name = "client", .secret = secret});
//   weft::Peer peer;
//   client.connect("host:7000", peer);
//   weft::PeerMemory memory = client.memory(peer, key);
//   weft::Operation operation;
//   client.get(memory, 0, buffer, 4096, operation);
//   if (client.wait(operation) != weft::Code::ok) ...
//
// Inside a host Nodes use shared memory, between hosts the fabrics of WEFT_FABRIC, in that order;
// peer.fabric() names the one in use. Over RDMA devices, transfers from 1 MiB on go over all
// devices that WEFT_DEVICE names on both sides; one that is down is left out until it is back.
//
// Progress. The Node progresses while some thread is in progress() or wait(); otherwise in a thread
// of its own, unless the settings exclude that. Callbacks are called by the progressing thread,
// never two at a time; they may start operations and send, and do not wait.
//
// Threads. Calls may be made by any number of threads at once; a PeerMemory and an Operation are a
// thread's own (copy the PeerMemory for another one). Messages from one thread to one peer arrive
// in order; a put and a message have no order but that of put_notify. Over RDMA devices each thread
// that puts and gets has a queue pair of its own, up to WEFT_VERBS_QPS and what the device has.
// close, connect, release and the like wait for threads that progress the Node.
//
// Fork. A Node belongs to the process that made it. In a child that the process has forked it sends
// and closes nothing: calls that return a Code or a Status, and operations, end with bad_argument
// ("connect anew after fork"), progress() does nothing, and the destructor leaves all to the
// parent.
//
// Errors. An empty handle, Peer{} or PeerMemory{}, is a bad_argument. The constructor throws
// weft::Error. The others return a Code or a Status, whose text names the peer; an operation ends
// within the timeout. peer_lost: the peer ended, or was silent for the timeout, or its links
// broke under one operation, more than 16 of them and for longer than the timeout; that Peer is of
// no more use, connect gives another. A restarted peer is another peer: keys of its earlier life
// are refused (not_permitted). no_memory: this process has no memory or no descriptors for it; a
// peer that could not be served without is lost for that. Of the calls that return neither, memory
// and connect_async throw std::bad_alloc.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weft/export.hpp"
#include "weft/memory_key.hpp"
#include "weft/operation.hpp"
#include "weft/status.hpp"

namespace weft {

class NodeImpl;
class PeerImpl;
class PeerMemoryImpl;

using NotifyTag = std::array<std::uint8_t, 16>;

struct NodeSettings {
  std::string name = {};  // for messages, at most 64 letters, none of them NUL
  // Peers must know the same. Without one only processes of the same user on this host are met. It
  // is proven, never sent; what travels afterwards is not encrypted.
  std::string secret = {};
  int timeout_ms = 0;        // how long a peer may be unreachable; 0: WEFT_PEER_TIMEOUT_MS
  std::string fabrics = {};  // as WEFT_FABRIC, which it replaces
  bool progress_thread = true;
};

// A Node elsewhere, in one life of it. A small handle; copies name the same. An empty one, Peer{},
// has no name and no fabric, takes no message, has no context, and is lost.
class WEFT_API Peer {
 public:
  Peer() = default;
  explicit operator bool() const noexcept { return impl_ != nullptr; }
  bool operator==(const Peer&) const = default;

  const std::string& name() const noexcept;
  std::uint64_t generation() const noexcept;  // differs between lives of a Node
  std::string_view fabric() const noexcept;   // that leads there
  // Returns true if it is on this host, and the two map memory that the other allocates.
  bool is_mapped() const noexcept;
  bool is_lost() const noexcept;
  // For how long nothing has been heard of it, since its link broke; 0: its link is up, or it is
  // lost.
  int unreachable_ms() const noexcept;
  // The longest message that send() takes without an Operation.
  std::size_t message_max() const noexcept;
  void* context() const noexcept;  // the program's
  void set_context(void* context) const noexcept;

 private:
  friend class Node;
  friend class NodeImpl;
  explicit Peer(std::shared_ptr<PeerImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<PeerImpl> impl_;
};

// Memory of a peer, named by a key that its owner made. A thread's own; must outlive operations on
// it.
class WEFT_API PeerMemory {
 public:
  PeerMemory() noexcept;  // of no memory
  PeerMemory(const PeerMemory& other);
  PeerMemory& operator=(const PeerMemory& other);
  PeerMemory(PeerMemory&&) noexcept;
  PeerMemory& operator=(PeerMemory&&) noexcept;
  ~PeerMemory();

 private:
  friend class Node;
  friend class NodeImpl;
  std::unique_ptr<PeerMemoryImpl> impl_;
};

// One part of a batch.
struct Transfer {
  const PeerMemory* memory;
  std::uint64_t offset;
  void* local;
  std::size_t bytes;
};

class WEFT_API Node {
 public:
  explicit Node(const NodeSettings& settings = {});
  // Calls no more callbacks. Says goodbye to all peers, waits for unacknowledged messages (a second
  // at most), ends all operations (cancelled) and releases all memory.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Meeting. Addresses: "host:port" (port 0: any), "unix:/path", "unix:@abstract", or the text of
  // address().

  // bad_argument: no address, or in use; not_permitted: a host:port needs a secret. Any number of
  // times. Peers of this host that come by host:port still share memory.
  Status listen(std::string_view address);
  // The address at which peers reach this Node, as a text that may travel by any means; all
  // arguments of listen(), and a Unix socket for this host.
  Status address(std::string& text);
  // Blocks until the peer has answered, at most timeout_ms (0: the Node's, at most
  // 5 s). not_found: no Node
  // there; not_permitted: another secret; timed_out; unsupported: no fabric leads there.
  Status connect(std::string_view address, Peer& peer, int timeout_ms = 0);
  // The same without waiting: `done` is called as callbacks are. Messages of the peer may come
  // before it, but not before on_peer.
  void connect_async(std::string_view address, std::function<void(Status, Peer)> done,
                     int timeout_ms = 0);
  // Leaves the peer: sent messages arrive, operations under way end with cancelled.
  void close(const Peer& peer);

  // A peer has connected to this Node, or been connected. To be set before listen().
  void on_peer(std::function<void(const Peer&)> call);
  // A peer is gone, and why; its operations have ended before.
  void on_lost(std::function<void(const Peer&, const Status&)> call);

  // Memory.

  // Memory of the program's own that keys can be made for; until deregister_memory().
  Status register_memory(void* address, std::size_t bytes);
  // Memory that peers of this host map, so that put, get and atomics take nanoseconds and none of
  // this process's time. Until release(). A region that grows is several of these, each with its
  // key: released ones are withdrawn, and the others stay.
  Status allocate(std::size_t bytes, void*& address);
  // Both take the memory back first: peers can't use it once this has returned, and no byte is
  // written there on their behalf. Wait for peers to let go, at most the timeout. not_found.
  Status deregister_memory(void* address);
  Status release(void* address);
  // The key with these rights of memory from allocate or register_memory, named by its start. only:
  // the one peer that may use it; else any holder. Equal calls give equal keys.
  Status key(const void* address, std::uint32_t rights, MemoryKey& key, const Peer& only = {});
  // The memory that a key names. Its first use asks the owner; a refused one fails the operation.
  // An empty peer: PeerMemory{}.
  PeerMemory memory(const Peer& peer, const MemoryKey& key);

  // Moving. Each returns at once; the operation ends, now or later, with its code. Local memory
  // stays as it is until then. 0 to 1 GiB; over shared memory any length.
  // If a link breaks, bytes may be put more than once until the operation has ended, but not after
  // their notification; an atomic is never repeated.

  void put(const PeerMemory& to, std::uint64_t offset, const void* from, std::size_t bytes,
           Operation& operation);
  // The peer's on_notify is called with the tag when all bytes are there. A grant of one such put
  // is memory registered for it, with a key to write for the one peer, and deregistered when it is
  // there.
  void put_notify(const PeerMemory& to, std::uint64_t offset, const void* from, std::size_t bytes,
                  const NotifyTag& tag, Operation& operation);
  void get(const PeerMemory& from, std::uint64_t offset, void* to, std::size_t bytes,
           Operation& operation);
  // On 8-byte words at multiples of 8; atomic with all peers and the owner's processor.
  void cas(const PeerMemory& word, std::uint64_t offset, std::uint64_t compare, std::uint64_t swap,
           Operation& operation);
  void fetch_add(const PeerMemory& word, std::uint64_t offset, std::uint64_t value,
                 Operation& operation);
  // All, posted as one and ended as one: with ok, or the first error. Parts may differ in memory
  // and peer. `parts` is not kept.
  void put_all(std::span<const Transfer> parts, Operation& operation);
  void get_all(std::span<const Transfer> parts, Operation& operation);

  // Copies a message of at most peer.message_max(). again: the peer has not received enough yet;
  // call progress() and try again. peer_lost.
  Code send(const Peer& peer, const void* message, std::size_t bytes);
  // Up to 1 GiB; the operation ends when the message may be changed.
  void send(const Peer& peer, const void* message, std::size_t bytes, Operation& operation);
  // Messages, in order. The bytes last until the call returns; over shared memory a hostile peer
  // may still change them meanwhile, so copy what you check.
  void on_message(std::function<void(const Peer&, std::span<const std::byte>)> call);
  void on_notify(std::function<void(const Peer&, const NotifyTag&)> call);

  // Progress.

  // Moves things on once. True if anything happened.
  bool progress();
  // Moves things on until the operation has ended; its code. With a limit, `again` once that many
  // milliseconds are over: the operation goes on.
  Code wait(const Operation& operation);
  Code wait(const Operation& operation, int timeout_ms);
  // Moves things on, asleep in between, until something has happened or the time is over.
  void wait_some(int timeout_ms);
  // For epoll and the like: readable when progress() has something to do, from a call of arm() that
  // gave true until the next progress(). Call progress() every 20 ms all the same: only so is
  // silence noticed.
  int event_fd() const noexcept;
  bool arm();

  std::uint64_t generation() const noexcept;
  int timeout_ms() const noexcept;  // how long a peer may be unreachable

 private:
  std::unique_ptr<NodeImpl> impl_;
};

}  // namespace weft
