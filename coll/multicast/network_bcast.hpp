#pragma once
// NetworkBcast: broadcasts from one member to members of other hosts, whose data the network copies
// (libcomm/multicast). The members form a binomial tree, whose messages are the team's. A broadcast
// ends at a member when it has all and the members below it have, and leaves no message behind.
//
// The first broadcast forms the stream and probes the network, which takes up to half a second
// where datagrams do not come through; then, and once most packets are lost, it ends without data
// at all members, and no later one is begun.
//
// Threads: those of the team.
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "coll/coll.hpp"
#include "coll/plan/loss_deadline.hpp"
#include "multicast/packet_stream.hpp"

namespace weft::coll {

// The tags of these messages among a team's: so many, one for each root.
inline constexpr std::int32_t kMulticastTag = kNoticeTag + 1;
inline constexpr std::size_t kMostRoots = 4;

class NetworkBcast final : private mcast::PacketStream::Tree {
 public:
  // members: world ranks, the root first, the others in an order that all of them know. team: whose
  // context, loss and interrupts are theirs. tag: of no other stream of the team.
  NetworkBcast(Team& team, std::vector<int> members, std::int32_t tag);
  ~NetworkBcast();

  // Blocking; all members call it. is_done: the data are here; else the network does not copy, and
  // the others know it as well. Errors: peer_lost, no_memory, corrupt; truncated, with is_done: the
  // root's message has another length.
  Status bcast(void* data, std::size_t bytes, bool& is_done);
  // After is_done was false.
  const Status& why_not() const noexcept { return why_not_; }

 private:
  enum class Kind : std::uint32_t;
  struct Note;
  struct Transfer;  // a message on its way, with its memory
  struct Child {
    int world = 0;
    bool has_joined = false;
    std::uint64_t num_have = 0;  // broadcasts that its whole subtree has
    mcast::AllLimits limits = {};
  };

  bool is_root() const noexcept { return number_ == 0; }
  Status run(void* data, std::size_t bytes, bool& is_done);
  Status receive(std::uint64_t sequence, std::byte* data, std::size_t bytes, bool& is_done);
  Status copy(std::uint64_t sequence, std::byte* data, std::size_t bytes,
              std::uint32_t packet_bytes);
  Status form();
  Status open(bool may_use_verbs);
  void announce(std::uint64_t bytes, std::uint32_t packet_bytes);
  // Goes on until `done`.
  template <class Done>
  Status go_on(Done&& done);
  bool step();
  bool read_messages();
  void take(int from, std::span<const std::byte> bytes);
  void take_from_child(std::size_t child, const Note& note, std::span<const std::byte> body);
  void take_from_parent(const Note& note, std::span<const std::byte> body);
  void fail(int rank, std::string_view what);
  void send(int world, Note note, std::span<const std::byte> body = {});
  void send_to_children(const Note& note, std::span<const std::byte> body = {});

  void send_heard() override;
  void send_able(std::uint64_t able) override;
  void send_progress(std::uint64_t packets, std::uint64_t lost) override;
  void send_lack(std::uint64_t sequence, std::uint32_t first,
                 std::span<const std::byte> bitmap) override;
  void send_mark(std::uint64_t packets) override;
  bool send_repair(std::size_t child, const mcast::PacketStream::Message& message,
                   std::uint32_t first, std::uint32_t count) override;
  void wake() override {}
  std::string name_of_child(std::size_t child) const override;

  Team& team_;
  const std::vector<int> members_;  // world ranks by number
  const std::int32_t tag_;
  int number_ = 0;   // of this member; the root is 0
  int parent_ = -1;  // world rank
  std::vector<Child> children_;
  mcast::PacketStream stream_;
  bool is_formed_ = false;
  Status why_not_, failed_;
  std::uint64_t num_begun_ = 0;  // broadcasts
  // What the parent has said.
  std::string root_address_;
  bool has_started_ = false;
  mcast::PacketStream::Start start_;
  std::uint64_t num_announced_ = 0, announced_bytes_ = 0;
  std::uint32_t announced_packet_ = 0;

  std::string why_below_;  // a member of the subtree can receive no datagrams
  std::deque<std::unique_ptr<Transfer>> sending_;
  std::size_t bytes_under_way_ = 0;
  std::unique_ptr<Transfer> incoming_;
  std::uint32_t stream_id_ = 0;           // of all its messages; random
  std::optional<LossDeadline> deadline_;  // of the call under way
};

// The streams of a team, by root.
class NetworkBcasts {
 public:
  explicit NetworkBcasts(Team& team) : team_(team) {}
  // Whether broadcasts of that root and length may go by the network: not those of a team on one or
  // two hosts, nor of more roots than a process should have sockets for. The same at all members.
  bool takes(std::size_t bytes, int root) noexcept;
  // As NetworkBcast::bcast, for all members of the team: to one member of each host, and inside
  // hosts from there.
  Status bcast(void* data, std::size_t bytes, int root, bool& is_done);

 private:
  struct OfRoot {
    int root;
    bool is_off = false;
    std::unique_ptr<NetworkBcast> across = {};  // at leaders
  };
  OfRoot* find(int root) noexcept;

  Team& team_;
  std::vector<OfRoot> roots_;
};

}  // namespace weft::coll
