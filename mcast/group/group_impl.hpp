#pragma once
// GroupImpl: one member of one group. All fields are guarded by the Multicast's lock, unless noted
// otherwise; advance() and the on_... functions run on its thread.
//
// Control messages use a binomial tree of members, data the edges of the schedule; the other ends
// of both are neighbors, about 2 log2 n. A message is announced down the tree; receivers send their
// buffers to the members that will send to them; every member puts its blocks in the order of the
// schedule, each as soon as it has arrived, the buffer is known, and its receiver has given credit
// for it. Failures go to all neighbors. In native groups the network copies long messages
// (native.cpp).
#include <poll.h>

#include <deque>
#include <map>
#include <optional>
#include <set>

#include "mcast/group/multicast_impl.hpp"
#include "mcast/group/time_log.hpp"
#include "mcast/schedules/credit.hpp"
#include "multicast/packet_stream.hpp"

namespace weft::mcast {

// Bytes of puts that a group has in flight (transfer.cpp).
inline constexpr std::size_t kWindowBytes = 256 << 10;

class GroupImpl : public std::enable_shared_from_this<GroupImpl>, private PacketStream::Tree {
 public:
  GroupImpl(MulticastImpl& multicast, GroupSettings settings, GroupEvents events);

  // Called by Group; these take the lock.
  void join();
  void leave();
  Status ready();
  Status send(const void* data, std::uint64_t bytes);
  Status post(void* memory, std::uint64_t bytes);
  Status close(int timeout_ms);
  Status status();
  std::uint64_t num_completed();
  Status native();

  std::uint64_t id() const { return settings_.id; }
  std::uint64_t handle() const { return handle_; }
  int rank() const { return settings_.self; }
  int size() const { return static_cast<int>(settings_.members.size()); }
  int num_neighbors() const { return static_cast<int>(neighbors_.size()); }

  // Called by MulticastImpl, under the lock.
  bool wants_hello(const Connection& connection);
  // Fails the group for a hello from a member that is no neighbor, as the lists differ. False: the
  // hello is for a later group of this id.
  bool refuse_foreign_hello(Connection& connection, Bytes bytes);
  void on_connected(Connection& connection);
  void on_unreachable(Connection& connection, const Status& why);
  void on_lost(Connection& connection, const Status& why);
  void on_message(Connection& connection, Bytes bytes);
  void on_block(Connection& connection, const BlockTag& tag);
  // True if anything moved. has_more: it wants to be called again without an event.
  bool advance(Clock::time_point now, bool& has_more);
  bool is_active = false;
  // What an active group waits for besides the Node, and how long at most.
  void add_waits(std::vector<pollfd>& waits, std::chrono::microseconds& most) const;

 private:
  struct Buffer {  // of a neighbor, for one message
    std::uint64_t bytes;
    std::shared_ptr<PeerMemory> memory;
  };
  struct Neighbor {
    int rank;
    Connection* connection = nullptr;
    std::uint64_t handle = 0;  // of the group at this neighbor
    bool is_child = false, has_greeted = false, has_joined = false, has_all = false;
    bool is_old = false;                               // its connection was there before the group
    std::optional<Clock::time_point> back_until = {};  // lost; it may connect anew
    std::string why_lost = {};
    std::uint64_t num_have = 0;   // messages that its whole subtree has
    std::uint64_t num_taken = 0;  // messages that it has completed, as last reported
    // Of a child: its number, and in native groups what its subtree can receive.
    std::size_t child = 0;
    AllLimits channels = {};
    std::string why_not = {};
    std::map<std::uint64_t, Buffer> buffers = {};
    std::map<std::uint64_t, std::uint64_t> credits = {};  // that it gives, by message
    std::deque<std::pair<MemoryKey, std::shared_ptr<PeerMemory>>> memories = {};  // used last
  };
  // Blocks between this member and a neighbor in one message.
  struct Edge {
    std::optional<std::uint32_t> first_credit;  // that this member has
    std::uint64_t num_sent = 0, num_given = 0;  // given: credits to the neighbor
  };
  struct Message {
    std::uint64_t sequence = 0, bytes = 0;
    std::byte* data = nullptr;
    bool has_buffer = false, is_registered_here = false, is_small = false;
    std::vector<std::byte> small;  // until the buffer is known
    std::uint64_t block_bytes = 0;
    std::uint32_t num_blocks = 0, num_received = 0;
    std::vector<bool> received;
    bool uses_credit = false;
    bool has_early_credit = false;                  // given when a block is nearly here
    std::vector<bool> nearly_here;                  // by block; empty without early credit
    Receipts receipts;                              // the next one gets credit
    std::vector<Edge> edges;                        // by neighbor; empty without credit
    const PacketStream::Message* copied = nullptr;  // in native_: the network copies it
    // The next bytes to send: the block of `step`, of which `sent` bytes are posted.
    Shape shape;
    std::uint64_t step = 0, num_steps = 0, sent = 0;
    Move move;
    std::size_t num_puts = 0;  // in flight
    bool all_sent = false;
    std::shared_ptr<TimeLog> log;  // nullptr: nobody asks
  };
  struct Put {
    Operation operation;
    Message* message = nullptr;
    int to = 0;
    std::size_t bytes = 0;
    std::size_t last_of = 0;  // the log's number of the block that it ends; 0: none
  };
  struct Arrival {  // a message that was announced out of order
    std::uint64_t bytes;
    std::uint32_t packet_bytes;
    std::optional<std::vector<std::byte>> small;
  };
  // Memory that the program has given for a message, from then until its on_complete is called.
  struct Held {
    std::uint64_t sequence, bytes;
    const std::byte* memory;
  };
  struct Posted {
    std::uint64_t sequence, bytes;
    std::byte* memory;
    MemoryKey key;
  };

  bool is_root() const { return settings_.self == 0; }
  // The least of this member's count and its children's.
  std::uint64_t least_with_children(std::uint64_t own, std::uint64_t Neighbor::*count) const {
    for (const Neighbor& neighbor : neighbors_)
      if (neighbor.is_child) own = std::min(own, neighbor.*count);
    return own;
  }
  // The number of a message of which only the lower part has come: the first from num_completed_
  // on.
  template <class Part>
  std::uint64_t whole_sequence(Part part) const {
    return num_completed_ + static_cast<Part>(part - static_cast<Part>(num_completed_));
  }
  bool is_over() const { return closed_ || failed_.has_value(); }
  Neighbor* find(const Connection& connection);
  Neighbor* find(int rank);
  std::string name(int rank) const;
  Status refuse_own_thread(const char* call) const;
  void call_user(std::function<void()> function);
  void deregister(void* memory);
  template <class M>
  void send_to(Neighbor& neighbor, M message, Bytes body = {}) {
    message.group = settings_.id;
    message.to = neighbor.handle;
    message.rank = static_cast<std::uint16_t>(settings_.self);
    multicast_.send(*neighbor.connection, std::as_bytes(std::span(&message, 1)), body);
  }
  template <class M>
  void send_to_children(const M& message) {
    for (Neighbor& neighbor : neighbors_)
      if (neighbor.is_child) send_to(neighbor, message);
  }

  // group.cpp: joining, failing, closing.
  HelloMessage hello() const;
  FailedMessage failed_message(Code code, int who, std::string_view text) const;
  void send_hello(Neighbor& neighbor);
  std::string difference(const HelloMessage& theirs, Bytes text) const;
  void on_hello(Neighbor& neighbor, const HelloMessage& theirs, Bytes text);
  void note_joined();
  void end_waiting(Clock::time_point now);
  void go(const GoMessage& message);
  void fail(Code code, int who, std::string text);
  bool on_failed(Bytes bytes);
  void note_have();
  void note_all();
  std::string unreachable() const;
  void note_closed();

  // transfer.cpp
  std::uint64_t block_bytes_of(std::uint64_t bytes) const;
  bool has_few_blocks(std::uint64_t bytes) const;
  void prepare_credit(Message& message);
  Message& add_message(std::uint64_t sequence, std::uint64_t bytes, std::uint32_t packet_bytes);
  Message* message_of(std::uint64_t sequence);
  void start_queued();
  void on_arrival(std::uint64_t sequence, Arrival arrival);
  void take_arrivals();
  void want_buffer(Message& message);
  void on_buffer(std::uint64_t sequence, void* data, std::uint64_t room, bool was_posted);
  void offer_buffer(Message& message, std::uint64_t room);
  // Notes memory that the program has given. bad_argument: another message still has part of it.
  Status hold(const Held& given);
  void let_go(std::uint64_t sequence);
  void send_ready(Neighbor& neighbor, std::uint64_t sequence, std::uint64_t bytes,
                  const MemoryKey& key);
  void on_ready(Neighbor& neighbor, const ReadyMessage& message);
  void on_credit(Neighbor& neighbor, const CreditMessage& message);
  void give_credit(Message& message);
  bool has_credit(Message& message, const Neighbor& neighbor);
  Edge& edge(Message& message, const Neighbor& neighbor);
  bool reap();
  bool pump();
  bool complete_some();
  bool is_done(const Message& message) const;
  Spent spent_now(Message& message);
  // The neighbor's buffer for the message; nullptr: not known yet, or too small, and the group
  // fails.
  Buffer* buffer_of(const Message& message, Neighbor& neighbor);
  // Returns once the bytes are on their way. `block` is told to the neighbor with them.
  void put(Message& message, const Neighbor& neighbor, const Buffer& buffer, std::uint64_t at,
           std::size_t bytes, std::optional<std::uint32_t> block, std::size_t last_of = 0);

  // native.cpp
  void open_native();
  Status find_address(ChannelAddress& address) const;
  bool has_verbs() const;
  void send_joined();
  bool is_copied(std::uint64_t bytes) const;
  bool waits_native() const;
  bool advance_native(Clock::time_point now);
  // A call of native_ that found a fault of this neighbor's fails the group.
  void check_native(const Neighbor& neighbor, const Status& status);
  Neighbor& child(std::size_t number);
  void on_lack(Neighbor& neighbor, const LackMessage& lack, Bytes bitmap);
  void on_repair(const Neighbor& neighbor, const Message& message, std::uint32_t block);
  void send_heard() override;
  void send_able(std::uint64_t able) override;
  void send_progress(std::uint64_t packets, std::uint64_t lost) override;
  void send_lack(std::uint64_t sequence, std::uint32_t first, Bytes bitmap) override;
  void send_mark(std::uint64_t packets) override;
  bool send_repair(std::size_t child, const PacketStream::Message& message, std::uint32_t first,
                   std::uint32_t count) override;
  void wake() override;
  std::string name_of_child(std::size_t child) const override;

  MulticastImpl& multicast_;
  int given_self_ = 0;  // in the program's settings
  const GroupSettings settings_;
  const GroupEvents events_;
  const std::uint64_t handle_;
  const Algorithm* algorithm_;
  const Racks racks_;
  const bool is_one_host_;           // of a job: members share memory, and no link
  std::vector<Neighbor> neighbors_;  // by rank
  int parent_ = -1;
  bool uses_small_ = false;
  std::unique_ptr<PacketStream> native_;  // nullptr: another algorithm was chosen

  Clock::time_point create_until_{};
  bool is_going_ = false, has_joined_ = false, has_sent_ending_ = false, has_reported_all_ = false;
  bool closed_ = false;
  bool is_dead_ = false;  // the program has destroyed its Group
  std::optional<Status> failed_;
  std::size_t num_calls_ = 0;                // callbacks of the program, queued or running
  std::optional<std::uint64_t> num_in_all_;  // once the root has closed
  std::uint64_t num_reported_have_ = 0, num_stable_ = 0, num_reported_taken_ = 0;

  // Messages that the root's program has sent and that are not announced yet.
  struct Queued {
    const std::byte* data;
    std::uint64_t bytes;
  };
  std::deque<Queued> queued_;
  std::uint64_t num_sent_ = 0;  // by the program

  std::deque<std::unique_ptr<Message>> messages_;  // announced and not complete, in order
  std::uint64_t num_begun_ = 0;                    // the next one's sequence
  std::uint64_t num_here_ = 0;                     // complete at this member
  std::uint64_t num_completed_ = 0;
  std::uint64_t num_delivered_ = 0;  // the program's callback has returned
  std::map<std::uint64_t, Arrival> arrivals_;
  std::vector<std::pair<int, BlockTag>> early_blocks_;  // arrived before their announcement
  std::deque<Posted> posted_;
  std::vector<Held> held_;  // in no order
  std::vector<std::unique_ptr<Put>> puts_, free_puts_;
  std::size_t bytes_under_way_ = 0;
  std::size_t budget_ = 0;  // bytes that this call of advance() may still put
};

}  // namespace weft::mcast
