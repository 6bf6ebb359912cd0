#pragma once
// What two ofi fabrics say to each other, apart from the rings: short messages for connecting,
// for signs of life and for one-sided operations, and the immediate data of what they carry.
// Version 5. Every field is checked by its receiver before use.
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::ofi {

inline constexpr std::uint32_t kMagic = 0x35464f57;  // "WOF5"

enum class Type : std::uint16_t {
  connect = 1,  // a lane, and how large its ring is to be
  accept,       // answer: there is a ring
  refuse,       // answer: why there is none (a Code)
  credit,       // how much of the ring has been read
  ping,         // a sign of life that wants one back
  pong,
  goodbye,    // leaves in good order, and everything before has been received once
  farewell,   // answers
  get,        // wants memory sent, see Operation::by_message; the answer is parts
  put,        // wants memory written with the bytes that follow in the same message
  cas,        // wants a word changed
  fetch_add,  // the same
  written,    // answer: the last bytes of a put are there, or some are refused (a Code)
  value,      // answer: the word before
  denied,     // answer: why that is not done (a Code)
  lost,       // takes the receiver for lost, which it may hear where the way back is cut
};

struct Control {
  std::uint32_t magic;
  Type type;
  std::uint16_t code;  // refuse, written, denied; get to fetch_add: see room_of()
  std::uint32_t from;  // rank
  // connect, accept, refuse, credit: of the lane. From get on: the asker's number of the operation.
  std::uint32_t channel;
  // The receiver's, from the job's board: who does not know it is a stranger.
  std::uint64_t secret;
  // get, put, cas, fetch_add: where. accept: the ring, where the provider writes it, else 0.
  std::uint64_t address;
  std::uint64_t key;  // the same: of that
  // connect, accept: the sender's number of the lane. get to denied: the asker's random number of
  // the operation.
  std::uint32_t lane;
  // accept, refuse, credit: the receiver's number of it. get to fetch_add: see room_of().
  std::uint32_t other_lane;
  // connect: the ring's size. credit: the word. ping, pong: bytes sent in parts to the receiver so
  // far. get: how many. put: how many from here on to the put's end. written: how many are still to
  // come. cas, fetch_add: the new value, or what to add. value: the old one.
  std::uint64_t bytes;
  std::uint64_t compare;  // cas. accept: the lane's random number
};
static_assert(sizeof(Control) == 64);

// get, put, cas, fetch_add: how many bytes from `address` on the asker takes for the memory's. In
// 48 bits, beyond which there is none.
constexpr std::uint64_t room_of(const Control& request) noexcept {
  return std::uint64_t{request.code} << 32 | request.other_lane;
}
constexpr void set_room(Control& request, std::uint64_t bytes) noexcept {
  const std::uint64_t room = std::min(bytes, (std::uint64_t{1} << 48) - 1);
  request.code = static_cast<std::uint16_t>(room >> 32);
  request.other_lane = static_cast<std::uint32_t>(room);
}

// A message with immediate data is a part of a ring: the receiver's number of the lane, and where
// in the ring it goes, in lines of 64 bytes. 32 bits, which is what every provider carries. Where
// there are 64, the upper half is a random number of the lane, so that a stranger who finds the
// port cannot write into rings.
inline constexpr int kLineBits = 17;
inline constexpr std::size_t kLine = 64;
inline constexpr std::uint32_t kMaxLanes = 1u << (32 - kLineBits);
// In place of a lane's number: a part of what a get has asked for. The operation's number takes the
// place of the line, and its random number that of the lane's. Such parts come in order.
inline constexpr std::uint32_t kGetLane = kMaxLanes - 1;
inline constexpr std::uint32_t kMaxOperations = 1u << kLineBits;
// No ring needs to be larger.
inline constexpr std::uint32_t kMaxRing = 2u << 20;
static_assert(kMaxRing / kLine + 1 < 1u << kLineBits);
// So that an entry is as long as what one message carries, and credit, which costs a message,
// seldom.
inline constexpr std::uint32_t kMinRing = 1056u << 10;
// The longest message: a part of a ring or of what a get has asked for, or a control message and a
// part of a put. ofi_rxm sends no more without asking first.
inline constexpr std::size_t kMaxPart = 131072;
inline constexpr std::size_t kMaxPartRxm = 16384;

constexpr std::uint64_t immediate(std::uint32_t token, std::uint32_t lane,
                                  std::size_t offset) noexcept {
  return std::uint64_t{token} << 32 | lane << kLineBits |
         static_cast<std::uint32_t>(offset / kLine);
}

constexpr std::size_t lines_of(std::uint64_t immediate) noexcept {
  return immediate & ((1u << kLineBits) - 1);
}

// A write with immediate data: a part of a ring that the provider has put there. From the top: the
// lane's random number, which also says which lane it is, 31 bits; whether the part lies at the
// ring's start though no turn has come; how many lines it has, 16; and how many lines of the lane
// the other way round its writer has consumed, modulo 2^16.
struct Written {
  std::uint32_t token;
  bool restarts;
  std::uint16_t lines;
  std::uint16_t consumed;
};
inline constexpr std::uint32_t kWriteTokenMask = (1u << 31) - 1;
// A part is at most a ring and the mark of a turn behind it, and what is under way at most a ring.
static_assert(kMaxRing / kLine + 1 < 1u << 16);

constexpr std::uint64_t immediate_of_write(const Written& written) noexcept {
  return std::uint64_t{written.token} << 33 | std::uint64_t{written.restarts} << 32 |
         std::uint64_t{written.lines} << 16 | written.consumed;
}

constexpr Written written_of(std::uint64_t immediate) noexcept {
  return {static_cast<std::uint32_t>(immediate >> 33), (immediate >> 32 & 1) != 0,
          static_cast<std::uint16_t>(immediate >> 16), static_cast<std::uint16_t>(immediate)};
}

constexpr std::uint64_t immediate_of_get(std::uint32_t token, std::uint32_t number) noexcept {
  return std::uint64_t{token} << 32 | kGetLane << kLineBits | number;
}

}  // namespace weft::ofi
