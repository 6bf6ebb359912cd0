#pragma once
// PacketStream: messages that the network copies, from the root of a tree of members to all of
// them. One a member; the owner has the connections of the tree.
//
// The root sends the packets of a message once, in order, when all members have buffers, at most a
// window (window.hpp) ahead of the slowest. Receivers put them at their places. A packet that is
// missing while later ones are here, or that the root has marked as sent while nothing comes any
// more, is asked for at the parent, once, and comes by a repair; a late datagram of it is dropped,
// so that nothing else writes to the buffer. A parent repairs as soon as it has the packet itself,
// so that the root repairs for its children alone. What members report is the least of a subtree,
// some times a window.
//
// Whether the network copies at all the root finds out by probes, as long as packets, until every
// member has heard one. Without that, or when most packets are lost later, the stream is off for
// good; a message under way then ends by repairs.
//
// Threads: one at a time. Callers: groups (mcast/group) and broadcasts (coll/multicast).
#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "multicast/channel.hpp"
#include "multicast/packet_set.hpp"
#include "multicast/window.hpp"
#include "weft/status.hpp"

namespace weft::mcast {

// Ways of datagrams to all receivers, best first.
enum class ChannelKind : std::uint32_t { ud, udp };
inline constexpr std::size_t kNumChannelKinds = 2;
// What a member, or a subtree, can receive: bytes of a datagram, and datagrams that wait. 0: none.
struct ChannelLimits {
  std::uint32_t datagram_max, room;
};
using AllLimits = std::array<ChannelLimits, kNumChannelKinds>;  // by kind
WEFT_API AllLimits least_of(const AllLimits& one, const AllLimits& other);

// The header of a datagram; the bytes of the packet follow.
struct PacketHead {
  std::uint64_t token;     // of all datagrams of the stream
  std::uint32_t packet;    // of the message; kProbe: nothing but a sign that datagrams come
  std::uint16_t sequence;  // of the message, its lower part
  std::uint16_t window;    // packets that the root may be ahead now
};
inline constexpr std::uint32_t kProbe = ~0u;
static_assert(sizeof(PacketHead) == 16);

// Packets of one message, and those of one repair.
inline constexpr std::uint32_t kMostPackets = 1u << 24, kMostRun = 1u << 8;
// Bytes of the bitmap of one request for missing packets.
inline constexpr std::size_t kMostLackBytes = 4096;
// The shortest message that is worth it: of a shorter one, announcing takes longer than sending.
inline constexpr std::uint64_t kLeastCopiedBytes = 256 << 10;
// Two members have nothing to copy.
inline constexpr int kLeastCopiedMembers = 3;

class WEFT_API PacketStream {
 public:
  using Clock = std::chrono::steady_clock;
  using Bytes = std::span<const std::byte>;

  // What the root tells all when the stream starts.
  struct Start {
    std::uint64_t token = 0;  // 0: there will be no datagrams
    ChannelKind kind = {};    // that all members can receive
  };

  class Message {
   public:
    std::uint64_t sequence() const noexcept { return sequence_; }
    std::uint64_t bytes() const noexcept { return bytes_; }
    std::byte* data() const noexcept { return data_; }
    std::uint32_t num_received() const noexcept { return num_received_; }
    bool has_buffer() const noexcept { return data_ != nullptr; }
    bool is_whole() const noexcept { return num_received_ == num_packets_; }
    // The bytes of so many packets, from this one on.
    Bytes packets(std::uint32_t first, std::uint32_t count) const noexcept;

   private:
    friend class PacketStream;
    std::uint64_t sequence_ = 0, bytes_ = 0;
    std::byte* data_ = nullptr;
    std::uint32_t packet_bytes_ = 0, num_packets_ = 0;
    std::uint64_t first_ = 0;         // its first packet's number among those of all messages
    PacketSet here_, asked_;          // at receivers; asked: they come by repairs
    std::uint32_t num_received_ = 0;  // packets
    std::uint32_t num_sent_ = 0;      // at the root
    std::vector<PacketSet> wanted_;   // by child; empty: no child has asked yet
  };

  // Sends to the neighbors in the tree, by connections that lose nothing and keep the order.
  // Children have numbers from 0 on. What each of them gets is given to the function of the same
  // name below, beginning with on_.
  class Tree {
   public:
    virtual void send_heard() = 0;                                              // to the parent
    virtual void send_able(std::uint64_t able) = 0;                             // to the parent
    virtual void send_progress(std::uint64_t packets, std::uint64_t lost) = 0;  // to the parent
    virtual void send_lack(std::uint64_t sequence, std::uint32_t first, Bytes bitmap) = 0;
    virtual void send_mark(std::uint64_t packets) = 0;  // to the children
    // To a child, whose on_repair follows when the bytes are at their place. False: not now.
    virtual bool send_repair(std::size_t child, const Message& message, std::uint32_t first,
                             std::uint32_t count) = 0;
    // There is work for advance(), or the stream is off.
    virtual void wake() = 0;
    virtual std::string name_of_child(std::size_t child) const = 0;

   protected:
    ~Tree() = default;
  };

  PacketStream(Tree& tree, bool is_root, std::size_t num_children);

  // Forming: every member opens channels (or is off already), the least limits of all go to the
  // root, which chooses, and all start by its choice.
  void open(const ChannelAddress& address, bool may_use_verbs);
  // Instead of open(), or at the root once all have told theirs: why there can be no datagrams.
  void refuse(const Status& why) { why_not_ = why; }
  const Status& why_not() const noexcept { return why_not_; }
  AllLimits limits() const;  // of this member
  // At the root: without a token if there is no kind of datagrams that all can receive.
  Start choose(const AllLimits& all);
  void start(const Start& start);
  // No datagrams from now on.
  void turn_off(const Status& why);

  // ok: the network copies; again: it is not known yet; others: why it does not.
  Status state() const;
  bool is_on() const noexcept { return state_ == State::on; }

  // Messages that the network copies, in order of their sequences, which may have gaps.
  // At the root: whether one of so many bytes can be, if the stream is not off.
  bool takes(std::uint64_t bytes) const noexcept;
  std::uint32_t packet_bytes() const noexcept { return packet_bytes_; }  // at the root
  // At receivers: whether a message as the root announces it makes sense.
  bool may_receive(std::uint64_t bytes, std::uint32_t packet_bytes) const noexcept;
  // data == nullptr: set_buffer() follows. The message is valid until drop().
  const Message& add(std::uint64_t sequence, std::uint64_t bytes, std::uint32_t packet_bytes,
                     std::byte* data);
  void set_buffer(std::uint64_t sequence, std::byte* data);
  // No member below needs packets of the oldest message any more.
  void drop_first();
  bool has(std::uint64_t from, std::uint64_t to) const noexcept;  // a message of these sequences
  // The root has said that all packets so far are sent.
  bool is_marked() const noexcept { return mark_ >= num_announced_; }

  // Errors: corrupt, with a text that follows the sender's name: "asks for ...".
  void on_heard(std::size_t child);
  void on_able(std::size_t child, std::uint64_t able);
  Status on_progress(std::size_t child, std::uint64_t packets, std::uint64_t lost);
  Status on_mark(std::uint64_t packets);
  Status on_lack(std::size_t child, std::uint64_t sequence, std::uint32_t first, Bytes bitmap);
  // The bytes are at their place.
  Status on_repair(std::uint64_t sequence, std::uint32_t first, std::uint32_t count);
  // Where the bytes of a repair belong; empty: they are not expected.
  std::span<std::byte> place_of_repair(std::uint64_t sequence, std::uint32_t first,
                                       std::uint32_t count);

  // Does what can be done now. Returns whether anything moved.
  bool advance(Clock::time_point now);
  // Whether advance() is to be called again without an event; then what to wait for besides those
  // of the tree, and how long at most.
  bool needs_time() const noexcept;
  std::optional<pollfd> waits_for(Clock::time_point now, std::chrono::microseconds& most) const;

 private:
  enum class State { forming, probing, on, off };
  struct Child {
    bool has_heard = false;
    std::uint64_t num_able = 0, num_sent = 0, num_lost = 0;
  };

  Message* find(std::uint64_t sequence);
  Message* find_by_part(std::uint16_t sequence);
  std::uint64_t least_with_children(std::uint64_t own, std::uint64_t Child::*count) const;
  std::uint64_t most_lost(std::uint64_t own) const;
  bool probe(Clock::time_point now);
  bool send_packets(Clock::time_point now);
  bool send_packets(Message& message, Clock::time_point now);
  bool note_progress(Clock::time_point now);
  void send_mark(std::uint64_t count);
  bool receive_packets(Clock::time_point now);
  void on_packet(Bytes bytes, Clock::time_point now);
  void look_for_lacks(std::uint64_t until);
  void report_progress();
  void note_hearing();
  void note_able();
  bool repair();

  Tree& tree_;
  const bool is_root_;
  State state_ = State::forming;
  Status why_not_;  // off
  // By kind, as far as this member can have them; and the chosen one.
  std::array<std::unique_ptr<Channel>, kNumChannelKinds> channels_;
  std::unique_ptr<Channel> channel_;
  std::uint64_t token_ = 0;
  std::vector<Child> children_;
  std::deque<std::unique_ptr<Message>> messages_;
  // Counts are of packets of all messages, unless noted otherwise.
  std::uint64_t num_announced_ = 0;
  // One more than the last sequence for which, and for all before it, there are buffers: here, and
  // in the subtree.
  std::uint64_t num_able_ = 0, num_all_able_ = 0;
  std::uint64_t num_sent_ = 0;  // as far as this member knows
  std::uint64_t mark_ = 0;
  // At receivers.
  bool hears_ = false, has_reported_hearing_ = false;
  std::uint32_t window_ = Window::kLeast;
  std::uint64_t num_looked_at_ = 0, num_lost_ = 0, num_reported_ = 0;
  Clock::time_point last_heard_{};  // a packet or a mark
  // At the root.
  Window ahead_;
  std::uint32_t packet_bytes_ = 0;
  Clock::time_point probe_until_{}, next_probe_{}, last_progress_{}, timed_at_{};
  Clock::duration round_trip_{};
  std::uint64_t timed_ = 0;  // packets sent at timed_at_; 0: none is timed
  std::uint64_t num_there_ = 0, num_lost_there_ = 0;
  bool waits_for_queue_ = false;                 // of the interface
  std::optional<Clock::time_point> full_since_;  // that queue
};

}  // namespace weft::mcast
