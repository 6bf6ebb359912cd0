#pragma once
// What sessions send each other through a fabric's messages: one struct a message, each
// beginning with the head, and data behind it where it says so. docs/design/wire.md has the page. A
// peer's bytes are copied before they are checked (read_message).
#include <array>
#include <cstdint>
#include <cstring>

#include "fabric/endpoint.hpp"

namespace weft::transport {

enum class Kind : std::uint8_t {
  user = 1,  // data: a whole message of the program
  piece,     // data: a piece of a longer one
  notify,    // the data of a put before it are there
  resolve,   // what does this key name?
  resolved,
  withdrawn,  // the owner takes memory back
  let_go,     // nothing here uses it any more
  put,        // by the owner's side (rma/target_side.hpp); data: the next of its bytes
  get,        // the same; not numbered, nor are its data
  data,       // of a get, the next of them
  atomic,     // by the owner's side
  done,       // of a put or atomic, or why a get is refused
  bye,        // the session ends in good order
  // Not numbered:
  resume,  // the first after a link came up
  ack,
  ping,  // answered by an ack
  // Between ranks of a job (transport/lanes). Numbered:
  lane_open,    // a lane, and how large its ring is to be
  lane_answer,  // there is a ring, or why there is none
  farewell,     // answers bye: all that came before has arrived
  // Not numbered: posted again after a break by who still needs it.
  lane_entries,  // data: bytes of a ring
  lane_credit,
  lane_count,  // what has arrived of a lane, the first after a link came up
  // Of sessions. Numbered:
  device_key,  // before resolved: the key of a further device of the owner
};

inline constexpr std::uint8_t kNumbered = 2;  // flag: sent again after a link broke

inline constexpr std::uint32_t kSessionVersion = 4;

// Of a link of a session, to on_incoming().
struct LinkHello {
  std::array<std::uint8_t, 16> cookie;
  std::uint32_t version, received;
  std::uint16_t rail, device;  // 0: the main link; the opener's device
  std::uint32_t reserved;
};
static_assert(sizeof(LinkHello) == 32 && sizeof(LinkHello) <= fabric::kMaxHelloBytes);

struct Head {
  Kind kind;
  std::uint8_t flags = 0;
  std::uint16_t reserved = 0;
  std::uint32_t number = 0;  // of this message in the session, if kNumbered
  std::uint32_t acked = 0;   // all up to this number have arrived here
  std::uint32_t id = 0;      // of what it is about
};
static_assert(sizeof(Head) == 16);

struct PieceMessage : Head {
  std::uint64_t total, offset;
};
struct NotifyMessage : Head {
  std::array<std::uint8_t, 16> tag;
};
struct ResolveMessage : Head {
  std::array<std::uint8_t, 32> key;
};
struct ResolvedMessage : Head {
  std::uint32_t code;
  std::uint32_t handle;  // names the memory in this session from now on
  std::uint64_t bytes;
  std::uint32_t rights;
  std::uint32_t devices;  // of the owner that have keys, a bit each
  fabric::Key key;        // of the first
};
struct DeviceKeyMessage : Head {  // id: of the question
  std::uint32_t device, reserved2;
  fabric::Key key;
};
struct HandleMessage : Head {  // withdrawn, let_go; id: the handle
};
// Of the owner's side. What the asker wants to reach: key and address are a handle and an offset
// between Nodes, and as in MemoryName between ranks. room: what the asker takes for the memory's
// from there on, which all must be.
struct RemoteRange {
  std::uint64_t key, address, bytes, room;
};
struct AccessMessage : Head {  // put, get
  RemoteRange range;           // of a put: what is still to come, these data included
};
struct AtomicMessage : Head {
  RemoteRange range;
  std::uint64_t is_swap, operand, compare;
};
struct DoneMessage : Head {
  std::uint32_t code, reserved2;
  std::uint64_t previous;
};

// Between ranks of a job. Lanes and operations are named by numbers of whoever is told, which no
// later one of the same link has.
inline constexpr std::uint32_t kLanesVersion = 5;
struct RankHello {       // of a link
  std::uint64_t secret;  // of who is told, from the job's board or its card
  std::uint64_t job;     // of who tells
  std::uint32_t rank, version, received, reserved;
};
static_assert(sizeof(RankHello) <= fabric::kMaxHelloBytes);
struct LaneOpenMessage : Head {  // id: the writer's
  std::uint32_t channel, ring_bytes;
};
struct LaneAnswerMessage : Head {  // id: the writer's
  std::uint32_t code;
  std::uint32_t ring;  // the reader's number
};
struct EntriesMessage : Head {  // lane_entries; id: the reader's
  std::uint64_t position;       // of the first byte: how many were written before it
  std::uint64_t credit;         // of the lane of the same two threads the other way round
  std::uint32_t offset, bytes;  // in the ring; the bytes follow
};
inline constexpr std::uint8_t kRestart = 4;  // flag: these lie at the start, though no turn came
// Flag: these lie at the start of the whole ring, and so do all to come. Those before lie in the
// first kInitialRingBytes that a lane has.
inline constexpr std::uint8_t kFullRing = 8;
inline constexpr std::uint32_t kInitialRingBytes = 512;
struct CreditMessage : Head {  // lane_credit; id: the writer's
  std::uint64_t word;
};
struct CountMessage : Head {  // lane_count; id: the writer's
  std::uint64_t word, arrived;
};
struct ByeMessage : Head {  // of a rank
  std::uint64_t written;    // in rings of client 0, ever
};
template <class Message>
fabric::Bytes as_bytes(const Message& message) {
  return {reinterpret_cast<const std::byte*>(&message), sizeof message};
}

// False if the bytes are too few. data: what is behind it.
template <class Message>
bool read_message(fabric::Bytes bytes, Message& message, fabric::Bytes& data) {
  if (bytes.size() < sizeof message) return false;
  std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof message);
  data = bytes.subspan(sizeof message);
  return true;
}

// Reads a message as the one that it should be, and hands it on. False if the bytes are too few, or
// `handle` says so.
struct MessageReader {
  template <class Message, class Handle>
  bool operator()(Message message, Handle&& handle) {
    return read_message(bytes, message, data) && handle(message);
  }
  fabric::Bytes bytes;
  fabric::Bytes data = {};  // what is behind it
};

// Of a link that a peer opens; false: of another version, or too short.
bool read_hello(fabric::Bytes bytes, LinkHello& hello);

}  // namespace weft::transport
