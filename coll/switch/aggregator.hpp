#pragma once
// Aggregator: a switch's part of allreduce as a state machine, free of sockets and clocks: packets
// in, packets out. weft-switch connects it to ports; tests to a network that loses packets. It has
// no timers: the hosts repeat lost packets, and their repetitions make switches repeat. One thread.
//
// A group is a tree of switches over hosts. Every switch knows its own branch: its children, bound
// to the addresses they came from, and perhaps a parent. The switch reduces its children's
// contributions to one place (operation, offset) in a slot; the result goes up as one contribution,
// or, at the top, down to all children.
//
// Exact under loss:
//  1. Places of a slot only grow. A host uses a slot for the next place only when it has the last
//     one's result, so no host can lack more than the result before the current place, which is
//     kept.
//  2. A contribution counts once: a bitmap has the children that have contributed.
//  3. Packets older than the kept result are dropped, however late they come.
//  4. A group made anew has another ticket, so no packet of the old one is taken for it.
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "coll/switch/packet.hpp"

namespace weft::innet {

// The way out for packets.
class Wire {
 public:
  // Sends these bytes, which the caller may reuse afterwards. May lose them.
  virtual void send(const Address& to, std::span<const std::byte> bytes) = 0;

 protected:
  ~Wire() = default;
};

struct AggregatorOptions {
  bool is_spine = false;
  std::uint32_t max_groups = 16384;
  std::uint32_t max_slots = 65536;      // of all groups together
  std::uint32_t slots_per_job = 16384;  // a job's quota
  std::uint16_t payload_bytes = kMaxPayloadBytes;
  std::uint16_t max_window = 256;
  std::uint16_t max_children = kMaxChildren;              // of a group; no more
  std::uint32_t elements = (1u << kNumElements) - 2;      // bit n: Element n
  std::uint32_t operations = (1u << kNumOperations) - 2;  // bit n: Operation n
  std::uint8_t features = kFeatureOrdered;
  std::vector<Address> spines;  // the addresses that groups may name as parents
  std::uint64_t seed = 0;       // of tickets; 0: from the system
};

struct Counters {
  std::uint64_t packets = 0, malformed = 0, forged = 0, stale = 0, refused = 0;
  std::uint64_t contributions = 0, duplicates = 0, completed = 0, results_sent = 0;
  std::uint64_t expired_groups = 0, queries = 0;
};

class Aggregator {
 public:
  Aggregator(AggregatorOptions options, Wire& wire);
  ~Aggregator();

  // Handles a packet from an address. Whatever it holds, the answer is at most as long, except for
  // results to a group's children.
  void on_packet(const Address& from, std::span<const std::byte> bytes, std::uint64_t now_ns);
  // Ends groups whose lease is over; to be called about once a second.
  void expire(std::uint64_t now_ns);
  // A line for each number, for `weft-switch status`. At most kMaxPayloadBytes.
  std::string status_text() const;

  const Counters& counters() const noexcept { return counters_; }
  const AggregatorOptions& options() const noexcept { return options_; }
  std::size_t num_groups() const noexcept { return groups_.size(); }
  std::uint32_t num_used_slots() const noexcept { return used_slots_; }
  // The memory of one group, besides its entry in the table.
  static std::size_t group_bytes(const Branch& branch, int num_children) noexcept;

 private:
  struct Slot;
  struct Group;

  void on_query(const Address& from, const Packet& packet, std::uint64_t now_ns);
  void on_query_reply(const Address& from, const Packet& packet, std::uint64_t now_ns);
  void on_notify(const Address& from, const Packet& packet, std::uint64_t now_ns);
  void on_notify_reply(const Address& from, Group& group, const Packet& packet);
  void on_kill(const Address& from, const Packet& packet);
  void on_renew(Group& group, int child);
  void on_data(const Address& from, Group& group, const Packet& packet);
  void on_result(Group& group, const Packet& packet);
  void on_parent_refuses(Group& group, const Packet& packet);
  void on_parent_waits(Group& group, const Packet& packet);

  Answer make_group(const Header& header, const Branch& branch);
  void drop_group(std::uint32_t number);
  void send_to_parent(Group& group, Kind kind, std::span<const std::byte> body);
  void send_up(Group& group, Slot& slot);
  void complete(Group& group, Slot& slot, std::span<const std::byte> result);
  void send_result(const Group& group, int child, const Slot& slot, bool previous);
  void answer(const Address& to, const Header& request, Kind kind, Answer answer);
  void answer(const Address& to, const Header& request, Kind kind, Answer answer,
              std::span<const std::byte> body);
  void put(const Address& to, const Header& header, std::span<const std::byte> payload);

  AggregatorOptions options_;
  Wire& wire_;
  Counters counters_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Group>> groups_;
  std::unordered_map<std::uint32_t, std::uint32_t> slots_of_job_;
  std::uint32_t used_slots_ = 0;
  std::vector<Capabilities::Spine> spines_;                     // each spine's last answer
  std::vector<std::vector<Capabilities::Spine>> above_spines_;  // what each said is above it
  std::vector<std::uint64_t> spines_answered_ns_;               // the time of that answer
  // The time when the last query was passed on, by how many switches it had passed; 0: never.
  std::array<std::uint64_t, kMaxAbove> passed_on_ns_{};
  std::mt19937_64 random_;
  std::array<std::byte, kMaxPacketBytes> out_;
};

}  // namespace weft::innet
