#pragma once
// What two engines say to each other inside ring entries. Version 1; the page is
// docs/design/wire.md. Every field is checked by its receiver before use.
#include <cstdint>

namespace weft::tagged {

// Kinds of ring entries. For kEager, kEagerFirst and kAnnounce the head's immediate is the
// envelope.
enum Kind : std::uint8_t {
  kEager = 1,       // a whole message
  kEagerFirst = 2,  // u64 total length, then the message's first bytes; kEagerMore entries follow
  kEagerMore = 3,   // further bytes of the lane's message in progress
  kAnnounce = 4,    // Announce: a message waits at the sender
  kReady = 5,       // Ready: the receiver of an announced message takes part in its copy
  kFinished = 6,    // immediate: send id; the receiver has all it wants of an announced message
  kStream = 7,      // immediate: receive id; bytes of an announced message, in order
  kWithdraw = 8,    // immediate: send id; the sender wants an announced message back
  kWithdrawn = 9,   // immediate: send id; the receiver had not matched it, and has forgotten it
};

constexpr std::uint64_t envelope(std::uint32_t context, std::int32_t tag) noexcept {
  return std::uint64_t{context} << 32 | static_cast<std::uint32_t>(tag);
}

struct Announce {
  std::uint64_t length;
  std::uint64_t address;  // in the sender
  std::uint64_t send_id;
  std::uint32_t region;  // MemoryName::region of the address
  std::uint32_t extra;   // MemoryName::extra
};
static_assert(sizeof(Announce) == 32);

struct Ready {
  std::uint64_t length;   // bytes wanted, at most the announced length
  std::uint64_t address;  // in the receiver
  std::uint64_t send_id;
  std::uint64_t receive_id;  // of a stream
  std::uint32_t record;      // index of the SharedCopy in the receiver's memory, or kStreamed
  std::uint32_t region;      // MemoryName::region of the address
};
static_assert(sizeof(Ready) == 40);
inline constexpr std::uint32_t kStreamed = ~std::uint32_t{0};  // send it as kStream entries

}  // namespace weft::tagged
