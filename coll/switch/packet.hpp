#pragma once
// The packets between hosts and switches that compute (docs/design/switch-protocol.md). Numbers of
// the header are big-endian, as switches read them; elements of the payload are little-endian, as
// hosts have them. Pure functions; any thread. Independent of sockets: the same bytes travel as the
// payload of a UDP datagram or inside RoCEv2.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "coll/switch/address.hpp"
#include "coll/switch/numbers.hpp"

namespace weft::innet {

inline constexpr std::uint16_t kMagic = 0x5746;
inline constexpr std::uint8_t kVersion = 2;
inline constexpr std::size_t kHeaderBytes = 40;
inline constexpr std::size_t kMaxPayloadBytes = 1024;  // fits surely into a packet of 1500 bytes
inline constexpr std::size_t kMaxPacketBytes = kHeaderBytes + kMaxPayloadBytes;
inline constexpr int kMaxChildren = 64;  // of one switch in one group
inline constexpr int kMaxSpines = 8;     // known to one switch, directly above it
inline constexpr int kMaxAbove = 2;      // levels of switches above one
inline constexpr int kMaxKnown = 24;     // the most switches above it that a switch tells of

enum class Kind : std::uint8_t {
  query = 1,      // host to switch: asks for its capabilities
  query_reply,    //
  notify,         // child to its switch: make the group; gives the child's number
  notify_reply,   //
  kill,           // child to its switch: done with the group
  kill_reply,     //
  renew,          // child to its switch: the group is still in use
  data,           // child to its switch: a contribution
  result,         // switch to child
  wait,           // switch to child: your contribution has arrived, others are missing
  refuse,         // switch to child: the reason is in `answer`
  recover,        // host to host: asks whether it has this operation's result
  recover_reply,  //
  fetch,          // host to host: asks for this part of the result
  fetch_reply,    //
  status,         // from any address to a switch
  status_reply,   //
  kEnd
};

enum class Answer : std::uint8_t {
  ok = 0,
  pending,   // notify: other children, or the parent switch, have not come yet
  no_group,  // the switch does not know the group (any more): it was restarted, or the lease ended
  table_full,     // no room for another group, or for its slots
  conflict,       // the group's number is taken by another one, or the child by another address
  unsupported,    // a type, an operation or a mode this switch cannot compute
  mismatch,       // this contribution does not match the others to the same place
  out_of_step,    // the slot is still busy with an earlier packet
  parent_silent,  // the parent switch does not answer
  bad_format,
  has,    // recover_reply: this host has the result
  lacks,  // recover_reply: it has not, and will not take it from the switch any more
  kEnd
};
std::string_view text(Answer answer) noexcept;

// The beginning of every packet. `operation` counts a group's operations from 1 and `offset` is in
// bytes from the beginning of the operation's vector: together they identify the contributions that
// belong together. `slot` is the number of the slot in the switch.
struct Header {
  Kind kind = Kind::status;
  std::uint32_t group = 0;
  std::uint64_t key = 0;     // random: a sender that does not know it has no part in the group
  std::uint32_t ticket = 0;  // random, drawn by the switch each time the group is made
  std::uint16_t epoch = 0;
  std::uint8_t child = 0;
  Answer answer = Answer::ok;
  std::uint32_t operation = 0;
  std::uint32_t offset = 0;
  std::uint16_t slot = 0;
  Element element = Element::none;
  Operation arithmetic = Operation::none;
};

// A switch's capabilities, and how much of it is free: the body of query_reply.
struct Capabilities {
  std::uint8_t role = 0;         // 0: completes groups under it, and passes others up; 1: spine
  std::uint32_t elements = 0;    // bit n: Element n
  std::uint32_t operations = 0;  // bit n: Operation n
  std::uint16_t payload_bytes = 0;
  std::uint16_t max_children = 0;  // of a group; at most kMaxChildren
  std::uint32_t groups = 0, free_groups = 0;
  std::uint32_t slots = 0, free_slots = 0;
  std::uint8_t features = 0;
  struct Spine {
    Address address;
    std::uint8_t below = 0;  // n: above the nth of this list, counted from 1; 0: above this switch
    bool answers = false;
    std::uint32_t elements = 0, operations = 0;
    std::uint16_t payload_bytes = 0;
    std::uint16_t max_children = 0;
    std::uint32_t free_groups = 0;
    std::uint8_t features = 0;
    bool operator==(const Spine&) const = default;
  };
  std::vector<Spine> spines;  // at most kMaxKnown, each behind what it is above
  bool operator==(const Capabilities&) const = default;
};
inline constexpr std::uint8_t kFeatureOrdered =
    1;  // adds by child number, whatever the order of arrival
inline constexpr std::uint8_t kFeatureRoce = 2;

// The host's port, in a query's body: the destination of results by RoCE.
struct HostPort {
  std::uint32_t job = 0;
  std::array<std::uint8_t, 6> mac{};
  std::array<std::uint8_t, 16> gid{};
  std::uint32_t queue_pair = 0;
  std::uint32_t queue_key = 0;
  bool operator==(const HostPort&) const = default;
};

// A switch above another one, which is there a child among others, itself among them.
struct Parent {
  Address address;
  std::uint8_t child = 0;
  std::uint8_t num_children = 0;
  bool operator==(const Parent&) const = default;
};

// notify: the switch's part of the tree.
struct Branch {
  std::uint32_t job = 0;
  std::uint8_t num_children = 0;
  bool ordered = false;
  std::uint16_t window = 0;  // slots
  std::uint16_t payload_bytes = 0;
  std::uint16_t lease_s = 0;
  std::uint8_t num_above = 0;
  std::array<Parent, kMaxAbove> above;  // from this switch up
  bool has_parent() const noexcept { return num_above != 0; }
  const Parent& parent() const noexcept { return above[0]; }
  bool operator==(const Branch&) const = default;
};

// notify_reply, with the ticket in the header.
struct Grant {
  std::uint16_t window = 0;
};

// Writes a packet into a buffer of kMaxPacketBytes; returns its length.
std::size_t write_packet(std::span<std::byte> out, const Header& header,
                         std::span<const std::byte> payload) noexcept;
// A packet as read. nullopt: not such a packet. The payload is all that follows the header.
struct Packet {
  Header header;
  std::span<const std::byte> payload;
};
std::optional<Packet> read_packet(std::span<const std::byte> bytes) noexcept;

std::vector<std::byte> encode(const Capabilities& body);
std::vector<std::byte> encode(const HostPort& body);
std::vector<std::byte> encode(const Branch& body);
std::vector<std::byte> encode(const Grant& body);
std::optional<Capabilities> decode_capabilities(std::span<const std::byte> bytes);
std::optional<HostPort> decode_host_port(std::span<const std::byte> bytes) noexcept;
std::optional<Branch> decode_branch(std::span<const std::byte> bytes) noexcept;
std::optional<Grant> decode_grant(std::span<const std::byte> bytes) noexcept;

// A query is as long as the longest answer, so that no one can be flooded through a switch.
inline constexpr std::size_t kQueryBytes = 928;

}  // namespace weft::innet
