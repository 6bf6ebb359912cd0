#pragma once
// What two verbs fabrics say to each other. Version 5; the page is docs/wire.md. Little-endian, as
// every machine with such devices. Every field is checked by its receiver before use.
#include <cstddef>
#include <cstdint>

namespace weft::verbs {

inline constexpr std::uint32_t kMagic = 0x32565457;  // "WTV2"
inline constexpr std::uint32_t kVersion = 5;

// With a connection request and with its acceptance, as private data.
struct Hello {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t rank;        // of the process that says it
  std::uint32_t read_depth;  // gets and atomics that it answers at once
  std::uint64_t key[2];      // of the process that is asked, from the job's board
  std::uint32_t received;    // messages of the other that have arrived over earlier queue pairs
  std::uint32_t attempt;     // how often it has asked, ever; older requests of it are void
};
static_assert(sizeof(Hello) == 40);

// With a refusal.
struct Refusal {
  std::uint32_t magic;
  std::uint32_t reason;
};
inline constexpr std::uint32_t kMineGoesFirst = 1;  // both ask at once: wait for my request
inline constexpr std::uint32_t kStranger = 2;
inline constexpr std::uint32_t kNoRoom = 3;
inline constexpr std::uint32_t kGone = 4;      // the connection was lost before
inline constexpr std::uint32_t kAskAgain = 5;  // the old queue pair has to be taken down first

// Small messages beside the rings, as sends. Lanes are named by numbers of the one who is told,
// except where said.
enum class ControlKind : std::uint8_t {
  // The secret of the ring's seals (transport/seal.hpp) is half the writer's and half the reader's.
  open = 1,  // lane: the writer's number; a: channel; b: ring_bytes; high: half of the secret
  opened =
      2,  // lane: the writer's; a: the reader's number; b: address of the ring; key: chunk 0's;
          // high: the other half
  refused = 3,  // lane: the writer's; a: Code
  grow = 4,     // lane: the reader's; a: the chunk that is wanted
  grown = 5,    // lane: the writer's; a: the chunk; key: of that chunk
  credit = 6,   // lane: the writer's; b: the word
  goodbye = 7,  // the process leaves in good order
  // Of memory; lane: its number at the owner; key: the device's. The first and the last are told to
  // the owner.
  look = 8,        // is it shared?
  found = 9,       // yes; b: where it begins; a, high: how many bytes
  gone = 10,       // no, or no longer: use it no more, and if it was found, say when that is so
  forgotten = 11,  // nothing is under way with it here, and nothing will be
  // A change of a word by its owner's processor.
  operands = 12,   // lane: the change's number; b: what to store or add; key, high: what to compare
  cas = 13,        // as the last operands say; lane, key: of the memory; a: the number; b: the word
  fetch_add = 14,  // likewise
  changed = 15,    // lane: the number; a: Code; b: the word before
  here = 16,       // from who asked for the connection: it has been answered
  closed = 17,     // lane: the reader's number; the writer writes no more
};
// With `found`: cas and fetch_add on this memory are to be asked for.
inline constexpr std::uint8_t kOwnerChanges = 1;

struct Control {
  ControlKind kind;
  std::uint8_t flags[3];
  std::uint32_t rank;  // of the sender
  std::uint32_t lane;
  std::uint32_t a;
  std::uint64_t b;
  std::uint32_t key;
  std::uint32_t high;
};
static_assert(sizeof(Control) == 32);

// The immediate of an RDMA WRITE into a ring: the reader's number of the lane and how many lines of
// entries have now arrived; 0: kMaxLines of them, and more follow before they count.
inline constexpr std::uint32_t kMaxLanes = 0x10000;
inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kMaxLines = 0xffff;

constexpr std::uint32_t immediate(std::uint32_t lane, std::size_t lines) noexcept {
  return lane << 16 | static_cast<std::uint32_t>(lines);
}

// A ring is registered in chunks, as far as it is used: an idle lane has a page at each end, a busy
// one what rings begin with, and one under load doubles. Both ends compute the same bounds.
inline constexpr std::uint32_t kFirstChunk = 4096;
inline constexpr int kMaxChunks = 24;

// Where chunk `index` ends, in a ring of ring_bytes that is first used up to `first_bytes`.
constexpr std::uint64_t chunk_end(int index, std::uint64_t first_bytes,
                                  std::uint64_t ring_bytes) noexcept {
  std::uint64_t end = kFirstChunk;
  for (int i = 0; i < index && end < ring_bytes; ++i) end = i == 0 ? first_bytes : end * 2;
  return end < ring_bytes ? end : ring_bytes;
}

}  // namespace weft::verbs
