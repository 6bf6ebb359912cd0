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
  get,       // wants memory written to it, see Operation::pushed
  denied,    // answer: why that is not done (a Code)
};

struct Control {
  std::uint32_t magic;
  Type type;
  std::uint16_t code;     // refuse
  std::uint32_t from;     // rank
  std::uint32_t channel;  // get, denied: the asker's number of the operation
  // The receiver's, from the job's board: who does not know it is a stranger.
  std::uint64_t secret;
  std::uint64_t address;     // connect: of the credit word; accept: of the ring; get: from where
  std::uint64_t key;         // of that
  std::uint32_t lane;        // connect, accept: the sender's number of the lane
  std::uint32_t other_lane;  // accept, refuse: the receiver's number of it
  // connect: the ring's size. ping, pong: bytes written to rings of the receiver so far. get: how
  // many; the two lanes together are the key of where they go.
  std::uint64_t bytes;
};
static_assert(sizeof(Control) == 56);

// Immediate data, 32 bits, which is what every provider carries: the receiver's number of the lane
// and how many lines of 64 bytes were written; or that credit has come, with the number of the lane
// it is for; or that what a get asked for has been written, with the operation's number.
inline constexpr std::uint32_t kCredit = 2u << 30;
inline constexpr std::uint32_t kGot = 3u << 30;
inline constexpr std::uint32_t kNumberMask = (1u << 30) - 1;
inline constexpr std::uint32_t kMaxLanes = 1u << 15;
inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kMaxPost = 0xffff * kLine;

constexpr std::uint32_t immediate(std::uint32_t lane, std::size_t bytes) noexcept {
  return lane << 16 | static_cast<std::uint32_t>(bytes / kLine);
}

}  // namespace weft::ofi
