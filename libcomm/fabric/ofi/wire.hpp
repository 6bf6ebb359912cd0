#pragma once
// What two ofi fabrics say to each other, apart from the rings: short messages for connecting and
// for signs of life, and the immediate data of writes. Version 1. Every field is checked by its
// receiver before use.
#include <cstddef>
#include <cstdint>

namespace weft::ofi {

inline constexpr std::uint32_t kMagic = 0x31464f57;  // "WOF1"

enum class Type : std::uint16_t {
  connect = 1,  // a lane, and how large its ring is to be
  accept,       // answer: there is a ring
  refuse,       // answer: why there is none (a Code)
  credit,       // how much of the ring has been read
  ping,         // a sign of life that wants one back
  pong,
  goodbye,   // leaves in good order, and everything before has been received once
  farewell,  // answers
  get,       // wants memory written to it, see Operation::pushed
  got,       // answer, behind what was written
  denied,    // answer: why that is not done (a Code)
};

struct Control {
  std::uint32_t magic;
  Type type;
  std::uint16_t code;     // refuse, denied
  std::uint32_t from;     // rank
  std::uint32_t channel;  // connect, accept; get, got, denied: the asker's number of the operation
  // The receiver's, from the job's board: who does not know it is a stranger.
  std::uint64_t secret;
  std::uint64_t address;     // get: from where
  std::uint64_t key;         // get: of that; accept: the lane's random number
  std::uint32_t lane;        // connect, accept: the sender's number of the lane
  std::uint32_t other_lane;  // accept, refuse, credit: the receiver's number of it
  // connect: the ring's size. credit: the word. ping, pong: bytes sent to rings of the receiver so
  // far. get: how many; the two lanes together are the key of where they go.
  std::uint64_t bytes;
};
static_assert(sizeof(Control) == 56);

// A message with immediate data is a part of a ring: the receiver's number of the lane, and where
// in the ring it goes, in lines of 64 bytes. 32 bits, which is what every provider carries. Where
// there are 64, the upper half is a random number of the lane, so that a stranger who finds the
// port cannot write into rings.
inline constexpr int kLineBits = 17;
inline constexpr std::size_t kLine = 64;
inline constexpr std::uint32_t kMaxLanes = 1u << (32 - kLineBits);
// No ring needs to be larger.
inline constexpr std::uint32_t kMaxRing = 2u << 20;
static_assert(kMaxRing / kLine + 1 < 1u << kLineBits);
// Part of a ring that one message carries: what tcp;ofi_rxm sends without asking first.
inline constexpr std::size_t kMaxPart = 16384;

constexpr std::uint64_t immediate(std::uint32_t token, std::uint32_t lane,
                                  std::size_t offset) noexcept {
  return std::uint64_t{token} << 32 | lane << kLineBits |
         static_cast<std::uint32_t>(offset / kLine);
}

}  // namespace weft::ofi
