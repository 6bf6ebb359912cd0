#pragma once
// The memory that a store and its clients share: the index (written by the store, mapped read-only
// by clients) and a client's control area (written by both). docs/use/objstore.md has the page
// about it.
//
// Index. Entries in a row, found through a table of buckets with linear probing. An id's first 31
// bytes lie in its entry, the others in the entry's tail, which has memory only where there are
// long ids. An entry's version is even while its object is sealed and may be taken, odd otherwise;
// it never has the same even value for two objects (until it wraps after 2^31). A reader
// copies the entry between two reads of its version. A reader that misses an object, because the
// table is being changed, asks the store: a miss is never an answer, a hit always is.
//
// References. A client takes an object by writing a slot of its own table, {version, entry} and a
// count above zero, then reading the version again. The store frees an object by making its
// version odd, then reading all slots. Both have a full fence in between, so one of them sees the
// other. A count of zero is a free or remembered slot.
//
// Calls. The client writes a Request into a ring and counts `submitted`; the store answers in any
// order with a Completion that carries the request's tag. The client never has more than kCalls
// under way. Longer contents (lists of ids, answers, data to be sealed) lie in extents: memory that
// the store made for this client alone. The store copies before it checks, and a client that breaks
// a rule is disconnected: all that is wrong here harms only the client whose area it is.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "weft/object_id.hpp"

namespace weft::objstore {

inline constexpr std::uint32_t kLayoutVersion = 2;
inline constexpr std::uint64_t kIndexMagic = 0x7865'646e'6920'7777u;

// --- The index ---

inline constexpr std::size_t kIdHeadBytes = 31, kIdTailBytes = 224;
static_assert(kIdHeadBytes + kIdTailBytes == ObjectId::kMostBytes);

struct alignas(64) Entry {
  std::atomic<std::uint32_t> version;  // odd: not to be taken
  std::uint32_t metadata_bytes;
  std::uint64_t offset;  // of the data in the segment; the metadata lie behind them
  std::uint64_t data_bytes;
  std::uint64_t expires_ns;  // CLOCK_MONOTONIC; 0: never
  std::uint8_t id_bytes;     // of all of the id
  std::uint8_t id_head[kIdHeadBytes];
};
static_assert(sizeof(Entry) == 64);

struct IdTail {
  std::uint8_t bytes[kIdTailBytes];
};
static_assert(sizeof(IdTail) == kIdTailBytes);

// fingerprint << 32 | entry + 1; 0: empty, a search ends here. The fingerprint is the id's hash,
// whose low bits are the place where a search begins.
using Bucket = std::atomic<std::uint64_t>;

inline constexpr int kMinTableBits = 10, kMaxTableBits = 27;
inline constexpr std::uint32_t kMaxEntries = 1u << 26;

struct IndexHeader {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t spills;      // 1: an object may be here and yet in no entry, so ask the store
  std::uint64_t generation;  // of the store: another in each life
  std::uint64_t segment_capacity;
  // Changing; store writes, clients read.
  std::atomic<std::uint32_t> table_bits;
  std::atomic<std::uint32_t> num_entries;    // that have memory
  std::atomic<std::uint32_t> wants_release;  // clients nudge when a reference goes
};

inline constexpr std::uint64_t kEntriesOffset = 4096;
inline constexpr std::uint64_t kTablesOffset = kEntriesOffset + std::uint64_t{kMaxEntries} * 64;
// Tables of different sizes never overlap, so a reader of an old one finds only what was true then.
constexpr std::uint64_t table_offset(int bits) {
  return kTablesOffset + (std::uint64_t{8} << bits);
}
inline constexpr std::uint64_t kTailsOffset = table_offset(kMaxTableBits + 1);
inline constexpr std::uint64_t kIndexBytes =
    kTailsOffset + std::uint64_t{kMaxEntries} * sizeof(IdTail);

inline std::uint32_t fingerprint_of(const ObjectId& id) {
  const std::size_t hash = std::hash<ObjectId>()(id);
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

// --- A client's control area ---

// The number of an object in slots and in the store's marks: one object in one life of its entry.
constexpr std::uint64_t object_number(std::uint32_t version, std::uint32_t entry) {
  return std::uint64_t{version} << 32 | (entry + 1);
}

struct Slot {
  std::atomic<std::uint64_t> object;  // object_number(); client writes
  std::atomic<std::uint32_t> count;   // references the client holds; client writes
  std::atomic<std::uint32_t> uses;    // gets so far, from which the store learns what is in use
};
static_assert(sizeof(Slot) == 16);

enum class Op : std::uint32_t {
  put = 1,  // create and seal with what lies in an extent; data, then metadata
  create,   // reserve id and room
  write,    // copy from an extent into an object that this client creates
  seal,     // make it visible; with an extent: copy all of it before
  abort,    // give up what create reserved
  wait,     // for `least` of the ids in an extent to be here, fetched if not local; each id is a
            // byte of its length and its bytes
  erase,    // as soon as nobody uses it
  pin,      // never evicted
  unpin,
  list,       // into an extent: ListedObject; value: where to go on
  status,     // into an extent: JSON text
  subscribe,  // events from now on
  nudge,      // a reference went while wants_release was set
  drop_extent,
  read_into,  // into an extent: data from object_offset on, of an object on another host; value:
              // data bytes of all of it. exists: it is here, take it
  push,    // to other hosts, whose names lie in an extent, `count` bytes with a zero behind each;
           // none: all. Answered into the same extent: `count` PushedHosts
  cancel,  // the call whose tag is in `count`, which is answered soon then, however it ends
};

enum RequestFlags : std::uint32_t {
  kFlagPin = 1,    // put, seal: pinned from the start
  kFlagFetch = 2,  // wait: from other hosts, too
  kFlagFirst = 4,  // put, seal: only if no other host has an object of that id
};

struct alignas(64) Request {
  Op op;
  std::uint32_t tag;  // the client's; comes back
  std::uint32_t flags;
  std::uint32_t extent;
  std::uint32_t count;  // ids in the extent; cancel: a tag
  std::uint32_t least;  // wait: how many are enough
  std::uint32_t metadata_bytes;
  std::uint32_t copies;  // put, seal: hosts that shall have it, this one included; 0 is 1
  std::uint64_t extent_offset;
  std::uint64_t bytes;          // in the extent
  std::uint64_t data_bytes;     // of the object
  std::uint64_t object_offset;  // write, read_into: where in the object
  std::uint64_t ttl_ms;         // 0: for ever
  std::int64_t timeout_ms;      // below 0: no limit
  std::uint64_t cursor;         // list
  std::uint64_t unused;
  ObjectId id;  // the last, so that of a usual id two cache lines travel
};
static_assert(sizeof(Request) == 384 && offsetof(Request, id) == 96);

// Copies as much of a request as its id needs; what is behind it stays. The size is read once, as
// the other side may change it meanwhile.
inline void copy_request(Request& to, const Request& from) {
  constexpr std::size_t kAlways = 128;
  const auto* bytes = reinterpret_cast<const std::byte*>(&from);
  std::memcpy(reinterpret_cast<std::byte*>(&to), bytes, kAlways);
  const std::size_t end = offsetof(Request, id) + 1 + to.id.size;
  if (end > kAlways)
    std::memcpy(reinterpret_cast<std::byte*>(&to) + kAlways, bytes + kAlways, end - kAlways);
}

// The reason of a failure, where the code alone is ambiguous.
enum class Reason : std::uint32_t {
  none = 0,
  exists,        // sealed, or somebody creates it
  too_large,     // for the store's memory
  no_room,       // all is referenced, pinned or being created
  quota,         // of the client
  not_creating,  // this client creates no such object
  bad_request,   // lengths or places that make no sense
  deleted,       // while it was waited for
  no_extent,
  shutting_down,
  no_holder,         // no host has it
  transfer,          // all hosts that have it failed
  few_copies,        // count: on how many hosts it is
  wrong_checksum,    // of all copies that came from other hosts
  unreadable,        // it was spilled, and can't be read back
  no_hosts,          // that it could be pushed to
  not_listening,     // where groups could reach the host
  few_hosts,         // count: results in the extent
  many_hosts,        // value: how many are known; more than an object is pushed to at once
  short_of_memory,   // the store, for what the call needs of its own
  bad_id,            // of no bytes
  no_room_here,      // for an object that another host has
  interrupted,       // by cancel
  exists_elsewhere,  // another host's object of that id was first
};

struct Completion {
  std::uint32_t tag;
  std::uint32_t code;  // weft::Code
  Reason reason;
  std::uint32_t count;
  std::uint64_t value;
  std::uint64_t unused;
};
static_assert(sizeof(Completion) == 32);

struct Event {
  ObjectId id;
  std::uint32_t metadata_bytes;
  std::uint64_t data_bytes;
};
static_assert(sizeof(Event) == 272);

struct ListedObject {
  ObjectId id;
  std::uint32_t metadata_bytes;
  std::uint64_t data_bytes;
  std::uint32_t flags;
  std::uint32_t unused;
};
static_assert(sizeof(ListedObject) == 280);
inline constexpr std::uint32_t kMostListed = 512;  // by one call

// The result of a push to one host.
struct PushedHost {
  std::uint32_t code;  // weft::Code; ok: it is there
  Reason reason;       // with ok: exists, it was there before
  char name[120];      // as requested; ends with a zero
};
static_assert(sizeof(PushedHost) == 128);
// Together with the pusher: as many as a message between hosts can name.
inline constexpr std::uint32_t kMostPushed = 4095;

enum ListedFlags : std::uint32_t { kListedPinned = 1, kListedReferenced = 2, kListedSpilled = 4 };

inline constexpr std::uint32_t kCalls = 64, kEvents = 1024, kSlots = 1u << 20;

struct Control {
  // Client writes.
  alignas(64) std::atomic<std::uint32_t> submitted;
  std::atomic<std::uint32_t> sleepers;    // threads that sleep on `wakes`
  std::atomic<std::uint32_t> armed;       // the client wants its event descriptor signalled
  std::atomic<std::uint32_t> slots_used;  // the store reads slots below this
  std::atomic<std::uint64_t> events_read;
  // Store writes.
  alignas(64) std::atomic<std::uint32_t> completed;
  std::atomic<std::uint32_t> wakes;        // a futex
  std::atomic<std::uint32_t> store_polls;  // 0: ring the doorbell
  std::atomic<std::uint64_t> events_written;
  std::atomic<std::uint64_t> events_lost;
  alignas(64) Request requests[kCalls];  // client writes
  Completion completions[kCalls];        // store writes
  Event events[kEvents];                 // store writes
  alignas(4096) Slot slots[kSlots];      // client writes
};

// --- The socket, SOCK_SEQPACKET: only to meet and to hand over descriptors ---

inline constexpr std::uint64_t kHelloMagic = 0x6f6c'6c65'6820'7777u;

struct Hello {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t extent_bytes;  // of the first extent; 0: the store's choice
  char name[32];               // for messages; ends with a zero
};
static_assert(sizeof(Hello) == 48);

// With five descriptors: segment, index, control area, doorbell of the store, doorbell of the
// client; then the first extent.
struct Welcome {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t code;  // weft::Code; not ok: no descriptors follow
  std::uint64_t segment_capacity;
  std::uint64_t extent_bytes;
  std::uint64_t generation;
};
inline constexpr int kWelcomeDescriptors = 6;

// A request for one more extent, and its answer, with one descriptor if the code is ok.
struct ExtentWish {
  std::uint64_t magic;
  std::uint64_t bytes;
};
struct ExtentAnswer {
  std::uint32_t code;
  Reason reason;
  std::uint32_t number;
  std::uint32_t unused;
  std::uint64_t bytes;
};
inline constexpr std::uint32_t kMaxExtents = 64;

}  // namespace weft::objstore
