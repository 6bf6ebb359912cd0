#pragma once
// What two ofi fabrics say to each other, apart from the rings: short messages for connecting and
// for signs of life, and the immediate data of writes. Version 1. Every field is checked by its
// receiver before use.
#include <cstddef>
#include <cstdint>

namespace weft::ofi {

inline constexpr std::uint32_t kMagic = 0x31464f57;  // "WOF1"

enum class Type : std::uint16_t {
  connect = 1,  // a lane: where its credit goes
  accept,       // answer: where its ring is
  refuse,       // answer: why there is none (a Code)
  ping,         // a sign of life that wants one back
  pong,
  goodbye,   // leaves in good order, and everything before has been received once
  farewell,  // answers
};

struct Control {
  std::uint32_t magic;
  Type type;
  std::uint16_t code;  // refuse
  std::uint32_t from;  // rank
  std::uint32_t channel;
  // The receiver's, from the job's board: who does not know it is a stranger.
  std::uint64_t secret;
  std::uint64_t address;     // connect: of the credit word; accept: of the ring
  std::uint64_t key;         // of that
  std::uint32_t lane;        // connect, accept: the sender's number of the lane
  std::uint32_t other_lane;  // accept, refuse: the receiver's number of it
  // connect: the ring's size. ping, pong: bytes written to the receiver so far.
  std::uint64_t bytes;
};
static_assert(sizeof(Control) == 56);

// Immediate data: the receiver's number of the lane, and how many lines of 64 bytes were written;
// or that credit has come. 32 bits, which is what every provider carries.
inline constexpr std::uint32_t kCredit = 1u << 31;
inline constexpr std::uint32_t kMaxLanes = 1u << 15;
inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kMaxPost = 0xffff * kLine;

constexpr std::uint32_t immediate(std::uint32_t lane, std::size_t bytes) noexcept {
  return lane << 16 | static_cast<std::uint32_t>(bytes / kLine);
}

}  // namespace weft::ofi
