#pragma once
// The messages of two exchanges inside ring entries; the page is docs/design/wire.md. The receiver
// checks every field before use.
#include <cstdint>

namespace weft::transport {

enum EntryKind : std::uint8_t {
  kBlock = 1,  // messages, one after the other
  kRts = 2,    // Rts: a block waits at the sender
};

// An entry's immediate: the phase of the sender, and the size of a message (0: variable).
constexpr std::uint64_t make_immediate(std::uint32_t phase, std::uint32_t message_bytes) noexcept {
  return std::uint64_t{phase} << 32 | message_bytes;
}

// The memory holds a StagingHead and then the block.
struct Rts {
  std::uint64_t address;
  std::uint64_t bytes;  // of the block
  std::uint32_t region;
  std::uint32_t key;
};
static_assert(sizeof(Rts) == 24);

// In front of a block that an RTS names.
struct StagingHead {
  // Even, a different number for each block; the reader's FIN adds 1 to it. Between hosts that is a
  // put, done once; if a link breaks under it, a compare-and-swap follows, as the memory may have
  // been reused for another block by then.
  std::uint64_t fin;
  std::uint64_t unused[7];
};
static_assert(sizeof(StagingHead) == 64);

// The messages by which ranks agree on the lost ones (agreement.cpp). The lost ranks, 32 bits each,
// and a value follow the head.
enum class AgreementKind : std::uint32_t { report, ask, decision };
struct AgreementHead {
  std::uint32_t kind;
  std::uint32_t view;  // the sender's; in a decision: the next one
  std::uint64_t call;  // report: calls that the sender has finished; decision: the call that fails
  std::uint32_t num_lost;
  std::uint32_t value_bytes;  // report, decision: the result of the last finished call
};
static_assert(sizeof(AgreementHead) == 24);

inline constexpr std::uint64_t kMaxBlockBytes = (std::uint64_t{1} << 30) + 64;

}  // namespace weft::transport
