#pragma once
// What two exchanges say to each other inside ring entries; the page is docs/design/wire.md. Every
// field is checked by its receiver before use.
#include <cstdint>

namespace weft::transport {

enum EntryKind : std::uint8_t {
  kBlock = 1,     // messages one behind the other
  kAnnounce = 2,  // Announcement: a block waits at the sender
};

// An entry's immediate: the phase it was sent in, and the size of a message (0: of any length).
constexpr std::uint64_t make_immediate(std::uint32_t phase, std::uint32_t message_bytes) noexcept {
  return std::uint64_t{phase} << 32 | message_bytes;
}

// The memory holds a StagingHead and then the block.
struct Announcement {
  std::uint64_t address;
  std::uint64_t bytes;  // of the block
  std::uint32_t region;
  std::uint32_t key;
};
static_assert(sizeof(Announcement) == 24);

// In front of a block that waits to be read.
struct StagingHead {
  // Even, another number for each block; the reader adds 1 when it has read the block. Between
  // hosts that is a put, done once; where a link broke under it, a compare-and-swap follows, as the
  // memory may be another block's by then.
  std::uint64_t done;
  std::uint64_t unused[7];
};
static_assert(sizeof(StagingHead) == 64);

// What ranks say to each other to agree on who is lost (agreement.cpp). Behind the head the ranks
// that are lost, 32 bits each, and a value.
enum class AgreementKind : std::uint32_t { report, ask, decision };
struct AgreementHead {
  std::uint32_t kind;
  std::uint32_t view;  // the sender's; of a decision: the one that it makes
  std::uint64_t call;  // report: how many the sender has finished; decision: which one fails
  std::uint32_t num_lost;
  std::uint32_t value_bytes;  // report, decision: what the last finished call left
};
static_assert(sizeof(AgreementHead) == 24);

inline constexpr std::uint64_t kMaxBlockBytes = (std::uint64_t{1} << 30) + 64;

}  // namespace weft::transport
