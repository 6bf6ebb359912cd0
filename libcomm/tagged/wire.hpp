#pragma once
// The messages of two engines inside ring entries. Version 1; the page is docs/design/wire.md. The
// receiver checks every field before use.
#include <cstdint>

namespace weft::tagged {

// Kinds of ring entries. For kEager, kEagerFirst and kRts the head's immediate is the envelope.
enum Kind : std::uint8_t {
  kEager = 1,       // a whole message
  kEagerFirst = 2,  // u64 total length, then the message's first bytes; kEagerMore entries follow
  kEagerMore = 3,   // further bytes of the lane's message in progress
  kRts = 4,         // Rts: a long message waits at the sender
  kCts = 5,         // Cts: the receiver has matched an RTS, and asks the sender to copy or stream
  kFin = 6,         // immediate: send id; the receiver has copied all it wants of the message
  kStream = 7,      // immediate: receive id; bytes of a message with a CTS, in order
  kWithdraw = 8,    // immediate: send id; the sender cancels an RTS
  kWithdrawn = 9,   // immediate: send id; the receiver had not matched the RTS, and has dropped it
};

constexpr std::uint64_t envelope(std::uint32_t context, std::int32_t tag) noexcept {
  return std::uint64_t{context} << 32 | static_cast<std::uint32_t>(tag);
}

struct Rts {
  std::uint64_t length;
  std::uint64_t address;  // in the sender
  std::uint64_t send_id;
  std::uint32_t region;  // MemoryName::region of the address
  std::uint32_t extra;   // MemoryName::extra
};
static_assert(sizeof(Rts) == 32);

struct Cts {
  std::uint64_t length;   // bytes wanted, at most Rts::length
  std::uint64_t address;  // in the receiver
  std::uint64_t send_id;
  std::uint64_t receive_id;  // of a stream
  std::uint32_t record;      // index of the SharedCopy in the receiver's memory, or kStreamed
  std::uint32_t region;      // MemoryName::region of the address
};
static_assert(sizeof(Cts) == 40);
inline constexpr std::uint32_t kStreamed = ~std::uint32_t{0};  // send it as kStream entries

}  // namespace weft::tagged
