#pragma once
// The messages between sessions, over a fabric's messages: one struct a message, each beginning
// with the head, and followed by data if it says so. docs/design/wire.md has the page. A peer's
// bytes are copied before they are checked (read_message).
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "fabric/endpoint.hpp"
#include "peer/handshake.hpp"

namespace weft::transport {

enum class Kind : std::uint8_t {
  user = 1,  // data: a whole message of the program
  piece,     // data: a piece of a longer one
  notify,    // the data of a put before it are there
  resolve,   // asks which region a key names
  resolved,
  withdrawn,  // the owner takes memory back
  let_go,     // the sender does not use it any more
  put,        // target-side emulation (rma/target_side.hpp); data: the next of its bytes
  get,        // the same; not numbered, nor are its data
  data,       // of a get, the next of them
  atomic,     // target-side emulation
  done,       // of a put or atomic, or why a get is refused
  bye,        // the session ends in good order
  // Not numbered:
  resume,  // the first after a link came up; id: the sender has left all it asked for up to this
  ack,
  ping,  // answered by an ack
  // Between ranks of a job (transport/lanes). Numbered:
  lane_open,    // a lane, and how large its ring is to be
  lane_answer,  // there is a ring, or the reason why not
  farewell,     // answers bye: all that came before has arrived
  // Not numbered: after a break the side that still needs one posts it again.
  lane_entries,  // data: bytes of a ring
  lane_credit,
  lane_count,  // the bytes that have arrived of a lane, the first after a link came up
  // Of sessions. Numbered:
  device_key,  // before resolved: the key of a further device of the owner
  // Between ranks. Numbered:
  lane_key,  // the ring is registered: entries may be written into it
  // Not numbered, of all links:
  rest,  // the sender gives the link up: it has nothing under way, and posts nothing more on it
  // Of sessions. Numbered:
  rail_rest,  // the same of a rail; id: its link's opening. The receiver closes it
};

inline constexpr std::uint8_t kNumbered = 2;    // flag: sent again after a link broke
inline constexpr std::uint8_t kOwnOpening = 4;  // flag of rail_rest: the sender opened the link

// A link of another version is refused without a word, so no two versions may get that far.
inline constexpr std::uint32_t kSessionVersion = 5;
static_assert(kSessionVersion == 5 && peer::kHandshakeVersion == 2,
              "raise kHandshakeVersion with kSessionVersion, and then the numbers here");

// Each side numbers the links that it opens to a peer, from 1 on, and leaves each for the next.
// True: a link with this number comes late, as one with that number, or a later one, has come; 0:
// none has, or the side does not say.
constexpr bool is_late(std::uint32_t opening, std::uint32_t last) noexcept {
  return opening != 0 && static_cast<std::int32_t>(opening - last) <= 0;
}

// Of a link of a session, to on_incoming().
struct LinkHello {
  std::array<std::uint8_t, 16> cookie;
  std::uint32_t version, received;
  std::uint16_t rail, device;  // 0: the main link; the opener's device
  std::uint32_t opening;       // ReliableLink::next_opening(); 0: it does not say
};
static_assert(sizeof(LinkHello) == 32 && sizeof(LinkHello) <= fabric::kMaxHelloBytes);

struct Head {
  Kind kind;
  std::uint8_t flags = 0;
  std::uint16_t reserved = 0;
  std::uint32_t number = 0;  // of this message in the session, if kNumbered
  std::uint32_t acked = 0;   // all up to this number have arrived here
  std::uint32_t id = 0;      // of the object that the message concerns
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
// Of target-side emulation: the range of memory to access. key and address are a handle and an
// offset between Nodes, and as in MemoryName between ranks. room: the bytes from there to the end
// of the memory, according to the requester; all of them must be valid.
struct RemoteRange {
  std::uint64_t key, address, bytes, room;
};
struct AccessMessage : Head {  // put, get
  RemoteRange range;           // of a put: all that is still to come, these data included
};
struct AtomicMessage : Head {
  RemoteRange range;
  std::uint64_t is_swap, operand, compare;
};
struct DoneMessage : Head {
  std::uint32_t code, reserved2;
  std::uint64_t previous;
};

// Between ranks of a job. Lanes and operations are named by the receiver's numbers, which are not
// used again on the same link.
inline constexpr std::uint32_t kLanesVersion = 8;
struct RankHello {       // of a link
  std::uint64_t secret;  // of the receiver, from the job's board or its endpoint address
  std::uint64_t job;     // of the sender
  std::uint32_t rank, version, received, opening;
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
  std::uint64_t credit;         // of the lane of the same two threads in the other direction
  std::uint32_t offset, bytes;  // in the ring; the bytes follow
};
inline constexpr std::uint8_t kRestart = 4;  // flag: these lie at the start, without a wrap mark
// Flag: these lie at the start of the full ring, and so do all to come. Those before lie in the
// kInitialRingBytes of the initial ring.
inline constexpr std::uint8_t kFullRing = 8;
inline constexpr std::uint32_t kInitialRingBytes = 512;
struct CreditMessage : Head {  // lane_credit; id: the writer's
  std::uint64_t word;
};
struct LaneKeyMessage : Head {  // lane_key; id: the writer's
  fabric::Key key;              // of the full ring, from its start on
};
// The number of a write into a ring: three bytes of the reader's, and one of the position in lines
// that a message would have.
constexpr std::uint32_t write_number(std::uint32_t ring, std::uint64_t position) noexcept {
  return (ring & 0xff'ffff) | static_cast<std::uint32_t>(position / 64) << 24;
}
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
inline fabric::Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// False if there are too few bytes. data: the bytes behind it.
template <class Message>
bool read_message(fabric::Bytes bytes, Message& message, fabric::Bytes& data) {
  if (bytes.size() < sizeof message) return false;
  std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof message);
  data = bytes.subspan(sizeof message);
  return true;
}

// Reads a message as the type that `handle` takes, and passes it on. False if there are too few
// bytes, or `handle` returns false.
struct MessageReader {
  template <class Message, class Handle>
  bool operator()(Message message, Handle&& handle) {
    return read_message(bytes, message, data) && handle(message);
  }
  fabric::Bytes bytes;
  fabric::Bytes data = {};  // the bytes behind it
};

}  // namespace weft::transport
