#pragma once
// Manager: this host's store among those of other hosts. A Node whose peers come and go: it finds
// the holders of an object, fetches it, and gives objects to others.
//
// Directory. The holders are known to a Directory (directory.hpp), in the managers themselves or in
// Redis.
//
// Transfer. The requester sends `ask` to a holder. Below the threshold the bytes come back in a
// message; from it on an offer with their location, from which the requester READs straight into
// its own segment. The holder keeps the object until FIN, the requester's loss, or the end of the
// lease; a requester that took longer than the lease, counted from before it asked, throws away
// what it read.
//
// Push. The host that has an object asks others to make room for it, and makes a group
// (weft/multicast.hpp) of those that have: its bytes go from each to others, straight to their
// destination. Groups have a Node and a thread of their own.
//
// Threads. run() is the manager's thread. The store's thread leaves commands in an inbox, and
// serves it itself if the manager's is not at work, which saves a fetch one hand-over; turn_mutex_
// decides. All but the inbox belongs to the thread that has the turn.
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "objstore/directory/directory.hpp"
#include "objstore/store/server.hpp"
#include "push_group.hpp"
#include "socket_transfer.hpp"
#include "weft/node.hpp"

namespace weft::objstore {

struct ManagerSettings {
  std::vector<std::string> listen, peers;
  std::string secret, name, fabrics;
  std::string directory = "embedded";               // or redis://HOST[:PORT][/PREFIX]
  std::uint64_t threshold_bytes = 32 << 10;         // data and metadata; from it on one-sided
  std::map<std::string, std::uint64_t> thresholds;  // of fabrics that have one of their own
  std::uint32_t lease_ms = 10000;
  bool registers_objects = false;  // registers each while it is read, not all memory for good
  bool verifies = false;           // what comes from other hosts, by its checksum
  std::uint32_t spin_us = 50;      // how long it polls for more before it sleeps
  std::string protocol = "node";   // or socket: objects go over TCP, to compare with
  std::size_t most_pushed = kMostPushed;  // to so many hosts at once
};

struct ManagerCounters {
  std::uint64_t fetched = 0, fetched_bytes = 0, fetched_one_sided = 0, fetched_of_several = 0,
                given = 0, given_bytes = 0;
  std::uint64_t retried = 0, wrong = 0, leases_ended = 0, refused = 0;
  std::uint64_t pushed = 0, pushed_here = 0;  // to others, host by host; and by others
  std::uint64_t second = 0;                   // dropped, as another host had put the same id before
};

class Manager final : public Remote, private Helper, private DirectoryUser, private SocketUser {
 public:
  Manager(Server& server, const ManagerSettings& settings);
  ~Manager() override;

  // Throws nothing; bad_argument, not_permitted: as Node's.
  Status open();
  // The address where others reach it.
  Status address(std::string& text);
  // Until stop().
  void run();
  void stop();

  // Remote: called with the server's lock held.
  void sealed(const ObjectId& id, std::uint32_t entry) override;
  void gone(const ObjectId& id, bool is_deleted) override;
  void restored(const ObjectId& id) override;
  void wanted(const ObjectId& id) override;
  void unwanted(const ObjectId& id) override;
  void read_into(std::uint64_t number, const IntoTarget& target) override;
  void no_more_into(std::uint64_t number) override;
  void replicate(std::uint64_t number, const ObjectId& id, std::uint32_t num_others) override;
  void no_more_copies(std::uint64_t number) override;
  void confirm(std::uint64_t number, const ObjectId& id) override;
  void push(std::uint64_t number, const ObjectId& id,
            const std::vector<std::string>& hosts) override;
  void no_more_push(std::uint64_t number) override;
  bool erased(const ObjectId& id) override;
  void status(nlohmann::json& json) override;

 private:
  enum class CommandKind {
    sealed,
    gone,
    restored,
    wanted,
    unwanted,
    erased,
    read_into,
    no_more_into,
    replicate,
    no_more_copies,
    confirm,
    push,
    no_more_push,
    group_arrived,
    group_ended
  };
  struct Command {
    CommandKind kind;
    ObjectId id = {};
    std::uint64_t number = 0;  // of the into, of the replication, of the push
    IntoTarget into = {};
    std::uint32_t num_others = 0;
    std::vector<std::string> hosts = {};
    Code code = Code::ok;  // group_ended
  };
  // members.cpp has the protocol of a meeting.
  struct Meeting {
    std::uint64_t number = 0;  // higher than of those before
    std::uint64_t theirs = 0;  // the peer's own, from its greeting; 0: none yet
    bool was_lost = false;     // before, and has not greeted since
  };
  // Of an object: data, then metadata.
  struct Range {
    std::uint64_t begin = 0, bytes = 0;
  };
  struct Sizes {
    std::uint64_t data_bytes = 0;
    std::uint32_t metadata_bytes = 0;
    std::uint64_t stamp = 0;
    std::uint64_t checksum = 0;  // 0: none
    bool operator==(const Sizes&) const = default;
  };
  // One holder that was asked, until nothing more is to be read from it.
  struct Ask {
    std::uint64_t number = 0, holder = 0, asked_ns = 0;
    bool owes_fin = true;
    bool has_offered = false;
    Sizes sizes;  // of the offer, as the next two
    std::vector<OfferPart> parts;
    std::uint64_t lease_ms = 0;
    bool is_reading = false;
    bool has_given = false;  // something of it was read
    Range piece;             // that is read now
    Operation read;
    std::vector<PeerMemory> memories;
  };
  // Longer objects are not for the store's thread, whose clients wait meanwhile.
  static constexpr std::uint64_t kLongBytes = 1 << 20;
  // One more of something, while it lives.
  class Counted {
   public:
    explicit Counted(int& number) : number_(number) { ++number_; }
    ~Counted() { --number_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    int& number_;
  };
  struct Fetch {
    ObjectId id;
    std::optional<Counted> is_long;
    bool is_wanted = true;    // by a local client
    bool is_watched = false;  // in the directory
    // Hosts to answer when the replica is here, with the numbers of their replications.
    std::map<std::uint64_t, std::set<std::uint64_t>> replica_requests;
    std::uint64_t keep_until_ns = 0;         // their deadline for room
    Outcome outcome = {Code::cancelled};     // of the into, if it ends without the object
    std::uint64_t into_number = 0;           // 0: answered
    std::unique_ptr<const IntoTarget> into;  // null: to be sealed here
    std::unique_ptr<std::byte[]> whole;      // by the socket protocol, for an into
    std::set<std::uint64_t> holders, failed;
    std::set<std::uint64_t> givers;  // of pieces that are in place
    std::vector<std::unique_ptr<Ask>> asks;
    std::uint64_t retry_ns = 0;
    // The destination, once the size is known.
    bool has_place = false;
    Sizes sizes;
    std::uint32_t entry = kNoEntry;
    std::byte* to = nullptr;             // the address of byte `begin`
    std::uint64_t begin = 0, bytes = 0;  // what is wanted of the object
    int num_wrong = 0;                   // copies whose checksum was another
    std::deque<Range> missing;           // and not being read
  };
  // An object that gets replicas on other hosts.
  struct Replication {
    ObjectId id;
    std::uint32_t num_others;
    std::set<std::uint64_t> asked, kept, refused;
  };
  // An object that goes to others at once.
  struct Target {
    enum class State { connecting, asked, ready, ended } state = State::connecting;
    std::string host;  // as the caller named it
    std::uint64_t generation = 0;
    std::string group_address;  // ready
    Outcome outcome;            // ended
    bool is_same = false;       // as one before it
    bool is_open() const { return state != State::ended; }
  };
  struct Push {
    ObjectId id;
    std::uint32_t entry = kNoEntry;
    std::vector<Target> targets;
    std::uint64_t answer_until_ns = 0;  // asked ones; once the group has ended: those in it
    bool wants_checksum = false;
    bool has_begun = false;    // the group's members are decided
    bool has_ended = false;    // the group
    bool is_given_up = false;  // by the caller
    Outcome failure;           // of all of it
    std::unique_ptr<PushGroup> group;
  };
  // A group's number is a push's, by the store's number, or with this bit of one that comes here.
  static constexpr std::uint64_t kPushedHere = std::uint64_t{1} << 63;
  // An object that another host pushes here.
  struct Pushed {
    ObjectId id;
    std::uint64_t from, number;  // the pusher, and its number of the push
    Sizes sizes;
    std::uint64_t room_until_ns = 0;   // room is waited for
    std::uint64_t group_until_ns = 0;  // its group is waited for
    std::uint32_t entry = kNoEntry;    // being written
    std::unique_ptr<PushGroup> group;
  };
  struct Lease {
    std::uint64_t peer, number;
    std::uint32_t entry;
    std::uint64_t ends_ns;
  };
  struct Outgoing {
    std::string bytes;
    Operation operation;
  };
  struct RegisteredPiece {
    std::uint64_t begin, bytes;
    MemoryKey key;
  };

  // manager.cpp
  bool help() override;  // Helper
  void idle() override;
  bool take_turn(std::uint64_t now_ns);
  static bool takes_long(const PeerMessage& message);
  void process(const Peer& peer, const PeerMessage& message);
  bool process_set_aside();
  void post(const Command& command);
  void wake();
  bool serve_inbox();
  void forget_sent();
  void received(const Peer& peer, std::span<const std::byte> bytes);
  void send(std::uint64_t to, const PeerMessage& message);
  void refresh_directory_status(std::uint64_t now_ns);
  void handle(std::uint64_t from, const PeerMessage& message);
  // members.cpp
  void connect_missing(std::uint64_t now_ns);
  void connect(const std::string& address);
  void forget_silent(std::uint64_t now_ns);
  void joined(const Peer& peer);
  void meet(std::uint64_t generation);
  void greet(std::uint64_t generation);
  void received_members(const Peer& peer, const PeerMessage& message);
  void received_greeting(const Peer& peer, std::uint64_t number);
  void lost(const Peer& peer, const Status& why);
  std::string address_of(std::uint64_t generation) const;
  void log_version(const Peer& peer, std::uint8_t version);
  void log_connecting(const std::string& address, const Status& status);
  void forget_peer(std::uint64_t generation);
  void advance_those_of(std::uint64_t holder);
  void learned(const Member& member) override;  // DirectoryUser
  // directory.cpp: DirectoryUser
  std::vector<ObjectId> local_objects() override;
  void has_holders(const ObjectId& id, std::span<const std::uint64_t> holders) override;
  void was_deleted(const ObjectId& id) override;
  void must_drop(const ObjectId& id, Dropped why) override;
  void confirmed(std::uint64_t number) override;
  void confirm_sealed(const ObjectId& id);
  void send_to(std::uint64_t member, const PeerMessage& message) override { send(member, message); }
  bool give_to(std::uint64_t member, const PeerMessage& watch) override;
  // fetch.cpp
  Fetch* fetch_of(const ObjectId& id);
  std::vector<Fetch*> fetches_of(const ObjectId& id);
  void start(const ObjectId& id);
  void start_into(std::uint64_t number, IntoTarget target);
  void leave(Fetch& fetch, Outcome outcome);
  void watch(Fetch& fetch);
  PeerMessage new_ask(Fetch& fetch, std::uint64_t holder);
  void not_given(std::uint64_t from, std::uint64_t number);
  bool ask_more(Fetch& fetch);
  void end_ask(Fetch& fetch, const Ask& ask, bool has_failed);
  void end_asks(Fetch& fetch);
  static bool is_in_time(const Ask& ask);
  void answered(Fetch& fetch, std::uint64_t from, const PeerMessage& message);
  bool make_place(Fetch& fetch, const Sizes& sizes);
  void lose_place(Fetch& fetch);
  static bool is_reading(const Fetch& fetch);
  void advance(Fetch& fetch);
  std::uint64_t piece_bytes(const Fetch& fetch) const;
  bool is_right(Fetch& fetch);
  bool read_piece(Fetch& fetch, Ask& ask);
  void retry_at(Fetch& fetch, std::uint64_t ns);
  void end_reads();
  void retry_fetches(std::uint64_t now_ns);
  void finish(Fetch& fetch);
  void forget(Fetch& fetch);
  // copies.cpp
  void replicate_to(std::uint64_t number);
  void end_replication(std::uint64_t number);
  void lost_replica_holder(std::uint64_t member);
  void replica_answered(std::uint64_t from, const PeerMessage& message);
  void keep(std::uint64_t from, const PeerMessage& message);
  void answer_replica_requests(const Fetch& fetch);
  // push.cpp: the pusher's side
  void start_push(std::uint64_t number, const ObjectId& id, const std::vector<std::string>& hosts);
  void find_target(std::uint64_t number, std::size_t place);
  void found_target(std::uint64_t number, std::size_t place, std::uint64_t generation);
  void advance_push(std::uint64_t number);
  void begin_group(std::uint64_t number, Push& push);
  void push_answered(std::uint64_t from, const PeerMessage& message);
  void push_ended(std::uint64_t from, const PeerMessage& message);
  void lost_target(std::uint64_t member);
  void give_up_push(std::uint64_t number);
  void group_ended(std::uint64_t number, Code code);
  void end_late_pushes(std::uint64_t now_ns);
  void stop_push_at(std::uint64_t host, std::uint64_t number);
  // pushed.cpp: the receiver's side, and parts of both
  void take_push(std::uint64_t from, const PeerMessage& message);
  void find_room(std::uint64_t key);
  void retry_rooms(std::uint64_t now_ns);
  void join_group(std::uint64_t from, const PeerMessage& message);
  void stop_pushed(std::uint64_t key);
  void push_stopped(std::uint64_t from, std::uint64_t number);
  void send_push_end(std::uint64_t to, std::uint64_t number, Outcome outcome);
  void pushed_arrived(std::uint64_t key);
  void pushed_ended(std::uint64_t key, Code code);
  void lost_pusher(std::uint64_t member);
  void ping_pushes(std::uint64_t now_ns);
  Status open_groups();
  std::unique_ptr<PushGroup> make_group(std::uint64_t number, PushGroupSettings settings);
  void end_groups();
  // register.cpp
  Status register_pieces();
  Status offer_parts(std::uint64_t to, std::uint32_t entry, std::byte* place, std::uint64_t bytes,
                     std::vector<OfferPart>& parts);
  void count_lease(std::uint32_t entry, int more);
  void end_registrations();
  // give.cpp
  void give(std::uint64_t to, const PeerMessage& ask);
  bool send_contents(std::uint64_t to, PeerMessage answer, std::span<const std::byte> contents);
  void give_restored(const ObjectId& id);
  void repeat_restores(std::uint64_t now_ns);
  void end_leases(std::uint64_t now_ns, std::uint64_t of_peer);
  // sockets.cpp: SocketUser
  Status open_sockets();
  void send_socket_address(std::uint64_t to);
  void received_socket_address(std::uint64_t from, const PeerMessage& message);
  Ask& socket_ask(std::uint64_t number);
  bool hold(const ObjectId& id, HeldObject& object) override;
  void drop(const HeldObject& object) override;
  std::byte* make_room(std::uint64_t number, std::uint64_t data_bytes,
                       std::uint32_t metadata_bytes) override;
  void arrived(std::uint64_t number) override;
  void failed(std::uint64_t number, bool is_absent) override;

  Server& server_;
  const ManagerSettings settings_;
  const bool may_be_helped_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Directory> directory_;
  Descriptor wake_;
  std::atomic<bool> is_over_{false};

  std::mutex turn_mutex_;
  std::mutex inbox_mutex_;
  // Of the inbox; urgent: the store's thread helps with it, and does not ring for it at once.
  std::atomic<bool> has_commands_{false}, has_urgent_{false}, has_rung_{false};
  std::atomic<std::size_t> num_fetches_{0};
  bool has_helped_ = false;  // the store's thread's
  // Under turn_mutex_: fetches of long objects; whether the store's thread has the turn, and the
  // messages that it leaves to the manager's, as clients would wait for it.
  int num_long_ = 0;
  bool is_helping_ = false;
  std::deque<std::pair<Peer, std::vector<std::byte>>> set_aside_;
  std::deque<Command> inbox_;
  ManagerCounters counters_;      // under inbox_mutex_
  std::string directory_status_;  // under inbox_mutex_; JSON
  std::uint64_t next_status_ns_ = 0;
  std::map<std::uint64_t, std::pair<std::string, std::string>> peer_names_;  // name, fabric

  // Under turn_mutex_.
  std::uint64_t self_ = 0;
  std::map<std::uint64_t, Peer> peers_;        // their current links
  std::map<std::uint64_t, Meeting> meetings_;  // of all of them
  std::uint64_t num_meetings_ = 0;
  std::set<std::uint64_t> stores_;  // peers that have greeted as stores
  std::vector<Peer> spares_;        // further links to some of them
  std::map<std::uint64_t, std::string> addresses_;
  std::map<std::uint64_t, std::uint64_t> silent_since_ns_;  // of those that were lost
  std::map<std::string, std::uint64_t> connected_;          // a configured address -> generation
  std::set<std::string> connecting_;
  std::map<std::string, std::string> troubles_;        // of configured addresses, as logged
  std::set<std::uint64_t> other_versions_;             // peers, as logged
  std::uint64_t num_second_ = 0, next_second_ns_ = 0;  // objects whose id another host had first
  std::uint64_t next_connect_ns_ = 0;
  // Per id one that is sealed here, and any number into clients' memory.
  std::unordered_multimap<ObjectId, std::unique_ptr<Fetch>> fetches_;
  std::unordered_map<std::uint64_t, Fetch*> asks_;
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, Replication> replications_;
  struct Confirm {
    ObjectId id;
    bool is_second = false;
  };
  std::map<std::uint64_t, Confirm> confirms_;
  std::unique_ptr<Multicast> multicast_;  // from the first push on
  std::string group_address_;             // its
  // By the store's numbers; by keys of kPushedHere.
  std::map<std::uint64_t, Push> pushes_;
  std::map<std::uint64_t, Pushed> pushed_;
  std::uint64_t next_room_ns_ = 0, next_ping_ns_ = 0;
  // The fetches with reads, so that a list of thousands is not searched for each completion.
  std::unordered_set<Fetch*> reading_;
  std::multimap<std::uint64_t, ObjectId> retries_;  // by time; checked against Fetch::retry_ns
  std::vector<Lease> leases_;
  // Asks for objects that are being restored.
  struct Restore {
    std::uint64_t to, until_ns;
    PeerMessage ask;
  };
  std::unordered_multimap<ObjectId, Restore> restores_;
  std::unordered_set<ObjectId> copies_;  // sealed here for another host's; not yet announced
  std::deque<std::unique_ptr<Outgoing>> outgoing_;
  std::size_t most_outgoing_ = 64;  // then all of them are checked
  std::vector<RegisteredPiece> pieces_;
  std::byte* segment_ = nullptr;
  struct Registered {
    std::byte* place;
    int num_leases;
  };
  std::unordered_map<std::uint32_t, Registered> registered_;  // by entry
  std::unique_ptr<SocketTransfer> sockets_;                   // with --protocol socket
  std::map<std::uint64_t, std::string> socket_addresses_;
};

}  // namespace weft::objstore
