#pragma once
// The messages between members of groups, over Nodes, version 2: one struct a message,
// each beginning with the head. docs/design/wire.md has the page. Bytes are copied before they are
// checked.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "multicast/packet_stream.hpp"
#include "weft/memory_key.hpp"
#include "weft/node.hpp"

namespace weft::mcast {

inline constexpr std::uint16_t kWireVersion = 2;
inline constexpr std::size_t kMaxTextBytes = 1024;

enum class Kind : std::uint16_t {
  identify = 1,  // first message of a connection; text: the sender's address in lists of members
  hello,
  joined,    // to the parent: the whole subtree has joined, and can receive such datagrams
  go,        // to children: all members have joined
  announce,  // to children: size of the next message (RTS)
  ready,     // to the member that sends: the buffer (CTS)
  small,     // data: a complete message
  taken,     // to the root: number of completed messages
  have,      // to the parent: number of messages that the whole subtree has
  stable,    // to children: number of messages that all members have
  ending,    // to children: final number of messages
  has_all,   // to the parent: the whole subtree has delivered all messages
  closed,    // to neighbors
  failed,    // to neighbors; text: why
  credit,    // to the member that sends: ready for one more block
  // Of messages that the network copies (native.cpp).
  heard,     // to the parent: the whole subtree hears the root's datagrams
  able,      // to the parent: number of messages for which the whole subtree has buffers
  progress,  // to the parent: packets that the whole subtree has been sent
  mark,      // to children: packets that the root has sent; the missing ones of them do not come
  lack,      // to the parent: packets that are missing; a bitmap follows
};

struct Head {
  Kind kind;
  std::uint16_t rank = 0;  // of the sender
  std::uint32_t text_bytes = 0;
  std::uint64_t group = 0;
  // The receiver's handle of the group, from its hello: messages of an earlier group of the same id
  // carry another one. 0 in hello, and in failed, after which the id cannot be used again.
  std::uint64_t to = 0;
};
static_assert(sizeof(Head) == 24);

struct HelloMessage : Head {  // text: the multicast address
  std::uint32_t version, num_members;
  std::uint64_t block_bytes, small_bytes;
  std::array<char, 16> algorithm;
  std::array<std::uint8_t, 16> members_digest, racks_digest;
  std::uint32_t delivery_all, reserved;
  std::array<std::uint8_t, 16> address_digest;  // of native groups
  std::uint64_t handle;                         // `to` of messages to this member
};
struct JoinedMessage : Head {
  AllLimits channels;  // the least of the subtree
};
struct GoMessage : Head {
  std::uint64_t token;  // of all datagrams of this group; 0: there will be none
  ChannelKind channel;  // that all members can receive
  std::uint32_t reserved;
};
struct CountMessage : Head {  // taken, have, stable, ending, able, mark
  std::uint64_t count;
};
struct AnnounceMessage : Head {  // small: data follow
  std::uint64_t sequence, bytes;
  std::uint32_t packet_bytes;  // of a message that the network copies; 0: by the schedule
  std::uint32_t reserved;
};
struct ProgressMessage : Head {
  std::uint64_t count;
  std::uint64_t lost;  // of them, by the member that lacked most
};
struct LackMessage : Head {  // text_bytes: of the bitmap, in which bit 0 is packet `first`
  std::uint64_t sequence;
  std::uint32_t first, reserved;
};
struct ReadyMessage : Head {
  std::uint64_t sequence, bytes;
  MemoryKey key;
};
struct CreditMessage : Head {
  // The blocks of the message that the neighbor may send beyond its first credit, in the order of
  // the schedule: one more than in the credit before.
  std::uint64_t sequence, count;
};
struct FailedMessage : Head {
  std::uint32_t code;
  std::int32_t who;  // rank of the failed member; -1: none
};
static_assert(sizeof(HelloMessage) == 128 && sizeof(ReadyMessage) == 72 &&
              sizeof(CreditMessage) == 40 && sizeof(FailedMessage) == 32 &&
              sizeof(JoinedMessage) == 40 && sizeof(GoMessage) == 40 &&
              sizeof(AnnounceMessage) == 48 && sizeof(ProgressMessage) == 40 &&
              sizeof(LackMessage) == 40);

template <class Message>
bool read_message(std::span<const std::byte> bytes, Message& message,
                  std::span<const std::byte>& rest) {
  if (bytes.size() < sizeof message) return false;
  std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof message);
  rest = bytes.subspan(sizeof message);
  return true;
}

// A hello of another version may be shorter, and then lacks all but the version.
inline bool read_hello(std::span<const std::byte> bytes, HelloMessage& message) {
  message = {};
  std::memcpy(static_cast<void*>(&message), bytes.data(), std::min(bytes.size(), sizeof message));
  return bytes.size() >= sizeof message ||
         (bytes.size() >= sizeof(Head) + sizeof message.version && message.version != kWireVersion);
}

// True if the text is complete and the code is valid.
inline bool is_sane(const FailedMessage& message, std::span<const std::byte> text) {
  return text.size() == message.text_bytes && text.size() <= kMaxTextBytes && message.code != 0 &&
         message.code <= static_cast<std::uint32_t>(Code::outcome_unknown);
}

// The header of a block. For packets that were missing `block` is that of the first one, with their
// number less one in the upper kRunBits.
struct BlockTag {
  std::uint64_t handle;
  std::uint32_t sequence;  // its lower half
  std::uint32_t block;     // with kNearlyHere: most of it has come, and the rest follows
};
inline constexpr std::uint32_t kNearlyHere = 1u << 31;
inline constexpr unsigned kRunBits = 8;
static_assert(kMostRun == 1u << kRunBits && kMostPackets == 1u << (32 - kRunBits));
static_assert(sizeof(BlockTag) == sizeof(NotifyTag));

inline NotifyTag to_tag(const BlockTag& block) {
  NotifyTag tag;
  std::memcpy(tag.data(), &block, sizeof tag);
  return tag;
}
inline BlockTag from_tag(const NotifyTag& tag) {
  BlockTag block;
  std::memcpy(&block, tag.data(), sizeof block);
  return block;
}

}  // namespace weft::mcast
