#pragma once
// Endpoint: a process's presence on one fabric (a device, a network interface, a host's memory), as
// small as RDMA itself. Only implementations of this class use a device. Clients: lanes and node.
//
// Links. A link is a reliable, ordered connection to one endpoint of a peer. It may break: then it
// is closed, and the client opens another; a fabric repairs nothing. address() is what a peer's
// open() takes, and it travels with the peer's bootstrap.
//
// Order. On one link messages arrive in the order of posting, once. A message arrives after the
// bytes of all puts that were posted before it. Gets and atomics have no order. While a link is up
// nothing is lost; when it goes down, what was posted and has not arrived may or may not arrive.
//
// Requests. put, get and atomic return at once; ok: the request is under way, it and the local
// memory stay as they are until done(), which poll() or close() calls exactly once, never the
// posting call itself. again: there is no room now, nothing was posted; try again after a poll().
// Any other code: nothing was posted. message() copies what it is given.
//
// Registered memory is reached by its key, which only the fabric reads, from `offset` on. The
// target side refuses accesses outside of it, accesses that the rights do not cover, and keys that
// it did not give; such a request ends with bad_argument or not_permitted, and the link may go down
// for it.
//
// Threads. open, close, poll and arm: one thread at a time. put, get, atomic and message: any
// thread, one at a time for a link, beside a poll(); links share no lock. write: any threads, also
// several on one link, and beside the others. The rest: any thread. Events are called in poll()
// only; they, and done(), may post, open and close, and don't poll.
//
// Tests: tests/fabric/conformance_test.cpp runs over every fabric. docs/design/fabrics.md adds one.
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/descriptor.hpp"
#include "base/os/mapping.hpp"
#include "weft/copy.hpp"
#include "weft/status.hpp"

namespace weft::fabric {

enum Rights : std::uint32_t { kRead = 1, kWrite = 2, kAtomic = 4 };

using Bytes = std::span<const std::byte>;
using Key = std::array<std::byte, 24>;

// The parts of a key: the address of its memory, as peers name it, its length, and the fabric's own
// number for it. The key of a part has the part's address and bytes; the target side checks it
// against the whole registration.
struct KeyParts {
  std::uint64_t address, bytes, secret;
};
static_assert(sizeof(KeyParts) == sizeof(Key));
inline KeyParts parts_of(const Key& key) noexcept { return std::bit_cast<KeyParts>(key); }
inline Key key_of(const KeyParts& parts) noexcept { return std::bit_cast<Key>(parts); }

inline constexpr std::size_t kMaxAddressBytes = 512;
inline constexpr std::size_t kMaxHelloBytes = 48;

struct Limits {
  std::size_t message_max = 0;  // head and body of one message, at least 256
  // The accesses that the fabric does; the others go by target-side emulation
  // (rma/target_side.hpp).
  bool puts = false, gets = false;
  bool atomics = false;  // atomic with the owner's processor, too
  bool writes = false;   // write(): a put of which the peer's client is notified
  bool breaks =
      true;  // false: a link ends with the peer's process, and loses nothing before its end
  // A link may end without a reason because the peer's device refused an access over it.
  bool refuses_by_breaks = false;
  bool polls_by_calls = true;  // a poll() costs system calls
  // Links over which one peer's puts, gets and atomics may go, one for each thread that posts.
  unsigned links = 1;
  // message_in_place() pays for bodies from here on.
  std::size_t in_place_min = ~std::size_t{0};
  // The best values for a job's lanes over this fabric, as LaneLimits (lanes/lanes.hpp); 0: as
  // inside a host.
  std::size_t lane_eager_max = 0;
  std::uint32_t lane_ring_min = 0;
};

// Of a fabric; `client` is the client's own.
struct Link {
  void* client = nullptr;
};

struct WorkRequest {
  void (*done)(WorkRequest&, Code) noexcept = nullptr;
};

enum class Atomic : std::uint8_t { fetch_add, compare_swap };
// As a processor does it, and returns the word's value before. The word is aligned.
inline std::uint64_t apply(Atomic kind, void* at, std::uint64_t operand,
                           std::uint64_t compare) noexcept {
  const std::atomic_ref word(*static_cast<std::uint64_t*>(at));
  // seq_cst: as the owner's own.
  if (kind == Atomic::fetch_add) return word.fetch_add(operand);
  word.compare_exchange_strong(compare, operand);
  return compare;
}

// Writes as a device does. The owner may poll a word that it waits for, and then read what was put
// before.
inline void store(void* at, Bytes data) noexcept {
  if (data.size() == sizeof(std::uint64_t) &&
      reinterpret_cast<std::uintptr_t>(at) % sizeof(std::uint64_t) == 0) {
    std::uint64_t word;
    std::memcpy(&word, data.data(), sizeof word);
    std::atomic_ref(*static_cast<std::uint64_t*>(at)).store(word, std::memory_order_release);
  } else if (!data.empty()) {
    weft::detail::copy(at, data.data(), data.size());
  }
}

struct Registration {
  Key key{};
  void* handle = nullptr;  // the fabric's
};

class Events {
 public:
  // A peer opened this link, with its hello. It is up if the answer is true, and closed otherwise.
  virtual bool on_incoming(Link& link, Bytes hello) = 0;
  // The link that was opened here is up. Nothing can be posted before.
  virtual void on_up(Link& link) = 0;
  // The link is of no more use, or could not be opened; all its requests have ended. The client
  // closes it, here or later. not_found: the peer's host says that nobody listens at its address.
  // no_memory: other links have all the room for links that there is here, and one of them has to
  // be closed first; again: so it is at the peer, whose client is told who wanted it.
  virtual void on_down(Link& link, Code why) = 0;
  // The bytes last until the call returns. Over shared memory a hostile peer may still change them:
  // copy before checking.
  virtual void on_message(Link& link, Bytes bytes) = 0;
  // So many bytes are there of a peer's write(), with the number that it gave. Clients that give no
  // key for it get none but from a hostile peer.
  virtual void on_written(Link& /*link*/, std::uint32_t /*number*/, std::size_t /*bytes*/) {}

 protected:
  ~Events() = default;
};

// The operations that only memory shared by two processes allows.
class Mapped {
 public:
  // Makes a link, which is up, and the descriptors with which the peer's accept() makes the other
  // end. The caller passes them on through a Unix socket, and closes them.
  virtual Status offer(Link*& link, std::vector<int>& descriptors) = 0;
  // Takes the descriptors over, whatever the result. corrupt: they are not what offer() makes.
  virtual Status accept(std::span<const int> descriptors, Link*& link) = 0;

  // Memory that peers of this host may map. The pages of released memory are not used again while a
  // peer has them mapped.
  virtual Status allocate(std::size_t bytes, void*& address) = 0;
  virtual void release(void* address) = 0;
  // A descriptor of memory from allocate(), for a peer with these rights; kWrite or kAtomic make it
  // writable. The caller closes it.
  virtual Status share(const void* address, std::uint32_t rights, int& descriptor) = 0;
  // Maps `bytes` of what a peer shared. corrupt: it is shorter, or could become shorter.
  virtual Status map(const Descriptor& file, std::size_t bytes, std::uint32_t rights,
                     Mapping& mapping) = 0;

 protected:
  ~Mapped() = default;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;  // all links are closed, all memory is deregistered
  virtual std::string_view name() const noexcept = 0;
  virtual const Limits& limits() const noexcept = 0;
  // At most kMaxAddressBytes; empty: links are made by mapped()->offer() alone.
  virtual std::string address() const = 0;
  virtual Mapped* mapped() noexcept { return nullptr; }
  // A word: endpoints of one kind can open links to each other, as far as the network allows.
  virtual std::string kind() const { return std::string(name()); }
  // The sockaddr at which the kernel listens for the process of this address: it refuses
  // connections there once that has ended, and only then. Empty: there is none. A part of
  // `address`.
  virtual Bytes listener_of(Bytes /*address*/) const { return {}; }
  // Of the network interface that links leave from: "10.0.0.1", "fd00::1"; empty: it has none.
  virtual std::string interface_address() const { return {}; }
  // For errors: the route from here to this address, and the setting that chooses another.
  virtual std::string way_to(Bytes) const { return {}; }

  // Begins a link to the endpoint of this address, with at most kMaxHelloBytes for its
  // on_incoming(). Does not block: on_up() or on_down() follows. bad_argument: no address.
  virtual Status open(Bytes address, Bytes hello, Link*& link) = 0;
  // Ends the link, which is freed. Its requests have ended (cancelled) when this returns, and no
  // byte is read or written here on the peer's behalf over it from then on.
  virtual void close(Link& link) = 0;

  // The link, which close() follows, was silent: the next one to its peer shares no connection with
  // it, where links share any.
  virtual void distrust(Link&) {}

  // These, and the next three where the fabric does not support them, may keep their default.
  virtual Status register_memory(void* /*address*/, std::size_t /*bytes*/, std::uint32_t /*rights*/,
                                 Registration&) {
    return {};
  }
  // No byte there is read or written on a peer's behalf once this has returned.
  virtual void deregister(Registration&) {}

  // At most 1 GiB each. Words of atomics are 8 bytes, aligned.
  virtual Code put(Link&, const void* /*from*/, std::size_t /*bytes*/, const Key&,
                   std::uint64_t /*offset*/, WorkRequest&) {
    return Code::unsupported;
  }
  virtual Code get(Link&, void* /*to*/, std::size_t /*bytes*/, const Key&, std::uint64_t /*offset*/,
                   WorkRequest&) {
    return Code::unsupported;
  }
  // A put from memory that is registered here, which the peer's on_written() reports: in order with
  // messages, and with room as those have (again). At most 1 MiB, not 0. done() may wait until more
  // is posted on the link, or it ends.
  virtual Code write(Link&, Bytes /*from*/, const Registration& /*source*/, const Key&,
                     std::uint64_t /*offset*/, std::uint32_t /*number*/, WorkRequest&) {
    return Code::unsupported;
  }
  // compare_swap stores `operand` where the word equals `compare`. `previous` is written before
  // done().
  virtual Code atomic(Link&, Atomic, const Key&, std::uint64_t /*offset*/,
                      std::uint64_t /*operand*/, std::uint64_t /*compare*/,
                      std::uint64_t& /*previous*/, WorkRequest&) {
    return Code::unsupported;
  }
  // One message of head and body, copied; ok, again, or peer_lost once the link is down.
  virtual Code message(Link& link, Bytes head, Bytes body) = 0;
  // The same, but the body is not copied, and stays as it is until done(), as with a request. A
  // fabric that passes bytes to the kernel may still read a body whose link was closed first,
  // whatever its content is by then: no peer accepts what arrives over such a link.
  virtual Code message_in_place(Link&, Bytes /*head*/, Bytes /*body*/, WorkRequest&) {
    return Code::unsupported;
  }

  // Makes progress and calls the events of what has happened. Returns true if anything has.
  virtual bool poll(Events& events) = 0;
  // Before a sleep: from now on wait_fd() turns readable when poll() has something to do, or a link
  // that answered again may have room. False: poll() has something to do now.
  virtual bool arm() = 0;
  virtual int wait_fd() const noexcept = 0;
};

}  // namespace weft::fabric
