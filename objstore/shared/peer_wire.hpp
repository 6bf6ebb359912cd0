#pragma once
// Messages between managers, sent through a Node: one struct for all kinds, little-endian, a
// version in front. A message takes effect only after all of it was decoded. docs/use/objstore.md
// has the page about it.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/memory_key.hpp"
#include "weft/object_id.hpp"

namespace weft::objstore {

inline constexpr std::uint8_t kPeerVersion = 5;
inline constexpr std::size_t kMaxMembers = 4096, kMaxParts = 4096, kMaxAddressBytes = 8192;

// Objects above this are read whatever threshold was requested: sending copies at both sides.
inline constexpr std::uint64_t kMaxSentBytes = 64 << 20;
// No message has more; most are some bytes long.
inline constexpr std::size_t kMaxPeerMessageBytes = kMaxSentBytes + (1 << 20);
static_assert(kMaxMembers * (kMaxAddressBytes + 12) < kMaxPeerMessageBytes);

enum class PeerKind : std::uint8_t {
  members = 1,  // other managers that the sender knows
  announce,     // the sender holds the object; to the id's answerer
  withdraw,     // no longer
  watch,        // request the holders, now and whenever there is another, until unwatch. With a
                // number it is an ask, too: if only the answerer holds it, it gives the object
  unwatch,
  holders,      // answer to watch; with the number of an ask: not given
  erase,        // on all hosts; to the id's answerer
  drop,         // from the answerer to each holder: erase yours
  ask,          // request the object
  data,         // answer: all of it
  offer,        // answer: where it can be read until the lease ends
  absent,       // answer: it is not here
  fin,          // the offer is no longer needed
  keep,         // fetch the object, of the sender if of nobody else, and keep a copy
  kept,         // answer: it is here
  unkept,       // answer: it could not be
  push,         // make room for the object, which will come by a group that the sender makes
  push_answer,  // there is room, and where the answerer's groups listen; or why not
  push_group,   // the group's members, of which the receiver is one
  push_end,     // the result at the sender
  push_stop,    // from the pusher: end it
  push_ping,    // by both while there is a push, so that the other one's silence is noticed
  confirm,      // to the id's answerer; answered once earlier announcements are processed
  confirmed,    // answer; a drop comes before it
  socket = 32,  // where the sender's socket protocol listens
};

struct Member {
  std::uint64_t generation = 0;
  std::string address;
};
// A part of the object in one registered piece of the sender's segment.
struct OfferPart {
  MemoryKey key;
  std::uint64_t offset = 0, bytes = 0;
};

// All fields of all kinds; each kind uses those whose comment names it.
struct PeerMessage {
  PeerKind kind = PeerKind::members;
  ObjectId id;               // all but members, fin
  std::uint64_t number = 0;  // watch, holders, ask, data, offer, absent, fin: of the fetch; keep,
                             // kept, unkept: of the replication; push...: of the push; confirm and
                             // its answer: of the seal; announce: an Announced; drop: a Dropped;
                             // members: of the meeting, if it is a greeting
  std::uint64_t threshold = 0;          // watch, ask: bytes from which an offer is wanted
  std::uint64_t data_bytes = 0;         // data, offer, push
  std::uint32_t metadata_bytes = 0;     // data, offer, push
  std::uint64_t checksum = 0;           // data, offer, push_group: 0 if nobody wanted it
  std::uint64_t stamp = 0;              // data, offer, push: equal for copies of one object
  std::uint32_t lease_ms = 0;           // offer
  bool wants_checksum = false;          // watch, ask, push_answer
  bool is_deleted = false;              // holders
  std::uint32_t code = 0, reason = 0;   // push_answer, push_end: a Code and a Reason
  std::uint64_t group = 0;              // push_group: its id
  std::uint64_t block_bytes = 0;        // push_group
  std::vector<Member> members;          // members; socket: one; push_answer: one, if it is ok;
                                        // push_group: in the group's order
  std::vector<std::uint64_t> holders;   // holders: generations
  std::vector<OfferPart> parts;         // offer
  std::span<const std::byte> contents;  // data; in the message
};

std::string encode(const PeerMessage& message);
// The version of a manager's message, of any version; 0: it is none.
std::uint8_t version_of(std::span<const std::byte> bytes);
// False if the bytes are no message of this version.
bool decode(std::span<const std::byte> bytes, PeerMessage& message);

}  // namespace weft::objstore
