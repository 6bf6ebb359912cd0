#pragma once
// The messages between members of groups, over Nodes, version 1: one struct a message,
// each beginning with the head. docs/design/wire.md has the page. Bytes are copied before they are
// checked.
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "weft/memory_key.hpp"
#include "weft/node.hpp"

namespace weft::mcast {

inline constexpr std::uint16_t kWireVersion = 1;
inline constexpr std::size_t kMaxTextBytes = 1024;

enum class Kind : std::uint16_t {
  identify = 1,  // text: the address that this peer has in lists of members; its first message
  hello,
  joined,    // to the parent: everybody below it has come
  go,        // to children: everybody has come
  announce,  // to children: a message comes
  ready,     // to who sends: the buffer
  small,     // data: a whole message
  taken,     // to the root: all up to here are complete
  have,      // to the parent: everybody below it has so many messages
  stable,    // to children: everybody has so many
  ending,    // to children: so many there will be
  has_all,   // to the parent
  closed,    // to neighbors
  failed,    // to neighbors; text: why
};

struct Head {
  Kind kind;
  std::uint16_t rank = 0;  // of the sender
  std::uint32_t text_bytes = 0;
  std::uint64_t group = 0;
  // The receiver's handle of the group, from its hello: what is left of an earlier group of the
  // same id has another one. 0 in hello, and in failed, which ends an id for good.
  std::uint64_t to = 0;
};
static_assert(sizeof(Head) == 24);

struct HelloMessage : Head {
  std::uint32_t version, num_members;
  std::uint64_t block_bytes, small_bytes;
  std::array<char, 16> algorithm;
  std::array<std::uint8_t, 16> members_digest, racks_digest;
  std::uint32_t delivery_all, reserved;
  std::uint64_t handle;  // that messages to this member shall bear
};
struct CountMessage : Head {  // taken, have, stable, ending
  std::uint64_t count;
};
struct AnnounceMessage : Head {  // small: data follow
  std::uint64_t sequence, bytes;
};
struct ReadyMessage : Head {
  std::uint64_t sequence, bytes;
  MemoryKey key;
};
struct FailedMessage : Head {
  std::uint32_t code;
  std::int32_t who;  // -1: nobody
};
static_assert(sizeof(HelloMessage) == 112 && sizeof(ReadyMessage) == 72 &&
              sizeof(FailedMessage) == 32);

template <class Message>
bool read_message(std::span<const std::byte> bytes, Message& message,
                  std::span<const std::byte>& rest) {
  if (bytes.size() < sizeof message) return false;
  std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof message);
  rest = bytes.subspan(sizeof message);
  return true;
}

// True if the text behind it is all there, and the code is one.
inline bool is_sane(const FailedMessage& message, std::span<const std::byte> text) {
  return text.size() == message.text_bytes && text.size() <= kMaxTextBytes && message.code != 0 &&
         message.code <= static_cast<std::uint32_t>(Code::outcome_unknown);
}

// The header of a block.
struct BlockTag {
  std::uint64_t handle;
  std::uint32_t sequence, block;  // the sequence's lower half
};
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
