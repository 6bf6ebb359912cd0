#pragma once
// Manager: this host's store among those of other hosts. A Node whose peers come and go: it finds
// who holds an object, brings it here, and gives objects to others.
//
// Directory. Who holds what is known by a Directory (directory.hpp), in the managers themselves or
// in Redis.
//
// Transfer. The asker sends `ask` to a holder. Below the threshold the bytes come back in a
// message; from it on an offer of where they lie, which the asker READs straight into its own
// segment. The holder keeps the object until FIN, the asker's loss, or the end of the lease; an
// asker that took longer than the lease, counted from before it asked, throws away what it read.
//
// Threads. run() is the manager's thread and the only one that uses the Node. The store's thread
// leaves commands in an inbox.
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

#include "directory.hpp"
#include "server.hpp"
#include "socket_transfer.hpp"
#include "weft/node.hpp"

namespace weft::objstore {

struct ManagerSettings {
  std::vector<std::string> listen, peers;
  std::string secret, name, fabrics;
  std::string directory = "embedded";        // or redis://HOST[:PORT][/PREFIX]
  std::uint64_t threshold_bytes = 32 << 10;  // data and metadata; from it on one-sided
  std::uint32_t lease_ms = 10000;
  std::uint32_t spin_us = 50;     // how long it polls for more before it sleeps
  std::string protocol = "node";  // or socket: objects go over TCP, to compare with
};

struct ManagerCounters {
  std::uint64_t fetched = 0, fetched_bytes = 0, fetched_one_sided = 0, given = 0, given_bytes = 0;
  std::uint64_t retried = 0, leases_ended = 0, refused = 0;
};

class Manager final : public Remote, private DirectoryUser, private SocketUser {
 public:
  Manager(Server& server, const ManagerSettings& settings);
  ~Manager() override;

  // Throws nothing; bad_argument, not_permitted: as Node's.
  Status open();
  // Where others reach it.
  Status address(std::string& text);
  // Until stop().
  void run();
  void stop();

  // Remote: by whoever holds the server's lock.
  void sealed(const ObjectId& id, std::uint32_t entry) override;
  void gone(const ObjectId& id, bool is_deleted) override;
  void wanted(const ObjectId& id) override;
  void unwanted(const ObjectId& id) override;
  bool erased(const ObjectId& id) override;
  void status(nlohmann::json& json) override;

 private:
  enum class What { sealed, gone, wanted, unwanted, erased };
  struct Command {
    What what;
    ObjectId id;
  };
  struct Fetch {
    ObjectId id;
    std::uint64_t number = 0;  // of the ask under way; 0: none
    std::uint64_t holder = 0;  // whom it was asked of
    std::uint64_t asked_ns = 0, retry_ns = 0;
    std::set<std::uint64_t> holders, failed;
    // What came of an ask.
    std::uint32_t entry = kNoEntry;
    std::uint64_t lease_ms = 0;
    bool is_reading = false, is_wanted = true;
    std::unique_ptr<PeerMessage> offer;  // waits for room
    Operation read;
    std::vector<PeerMemory> memories;
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
  struct Piece {
    std::uint64_t begin, bytes;
    MemoryKey key;
  };

  // manager.cpp
  void post(const Command& command);
  bool serve_inbox();
  void forget_sent();
  void connect_missing(std::uint64_t now_ns);
  void joined(const Peer& peer);
  void lost(const Peer& peer);
  void received(const Peer& peer, std::span<const std::byte> bytes);
  void send(std::uint64_t to, const PeerMessage& message);
  void tell_members(std::uint64_t to);
  void tell_status(std::uint64_t now_ns);
  void handle(std::uint64_t from, const PeerMessage& message);
  // manager_directory.cpp: DirectoryUser
  std::vector<ObjectId> local_objects() override;
  void has_holders(const ObjectId& id, std::span<const std::uint64_t> holders) override;
  void was_deleted(const ObjectId& id) override;
  void must_drop(const ObjectId& id) override;
  void send_to(std::uint64_t member, const PeerMessage& message) override { send(member, message); }
  void learned(const Member& member) override;
  // manager_transfer.cpp
  void start(const ObjectId& id);
  void ask_next(Fetch& fetch);
  void give_up_ask(Fetch& fetch, bool holder_failed);
  void give(std::uint64_t to, const PeerMessage& ask);
  Fetch* create_for(const PeerMessage& sizes);
  void take_data(const PeerMessage& message);
  void take_offer(const PeerMessage& message);
  bool begin_read(Fetch& fetch);
  void retry_at(Fetch& fetch, std::uint64_t ns);
  void retry_fetches(std::uint64_t now_ns);
  void end_reads();
  void finish(Fetch& fetch);
  void end_leases(std::uint64_t now_ns, std::uint64_t of_peer);
  Status register_pieces();
  // manager_sockets.cpp: SocketUser
  Status open_sockets();
  void tell_socket(std::uint64_t to);
  void learn_socket(std::uint64_t from, const PeerMessage& message);
  bool hold(const ObjectId& id, HeldObject& object) override;
  void drop(const HeldObject& object) override;
  std::byte* make_room(std::uint64_t number, std::uint64_t data_bytes,
                       std::uint32_t metadata_bytes) override;
  void arrived(std::uint64_t number) override;
  void failed(std::uint64_t number, bool is_absent) override;

  Server& server_;
  const ManagerSettings settings_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Directory> directory_;
  Descriptor wake_;
  std::atomic<bool> is_over_{false};

  std::mutex inbox_mutex_;
  std::deque<Command> inbox_;
  ManagerCounters counters_;      // under inbox_mutex_
  std::string directory_status_;  // under inbox_mutex_; JSON
  std::uint64_t next_status_ns_ = 0;
  std::map<std::uint64_t, std::pair<std::string, std::string>> peer_names_;  // name, fabric

  // The manager's thread only.
  std::uint64_t self_ = 0;
  std::map<std::uint64_t, Peer> peers_;
  std::vector<Peer> spares_;  // second ways to some of them
  std::map<std::uint64_t, std::string> addresses_;
  std::map<std::string, std::uint64_t> connected_;  // a configured address -> generation
  std::set<std::string> connecting_;
  std::uint64_t next_connect_ns_ = 0;
  std::unordered_map<ObjectId, std::unique_ptr<Fetch>> fetches_;
  std::unordered_map<std::uint64_t, ObjectId> asks_;
  std::uint64_t next_number_ = 1;
  // Of those, so that a list of thousands is not looked through for each that comes.
  std::unordered_set<ObjectId> reading_;
  std::multimap<std::uint64_t, ObjectId> retries_;  // by when; a fetch may have changed its mind
  std::vector<Lease> leases_;
  std::unordered_set<ObjectId> copies_;  // sealed here for another host's; not yet announced
  std::deque<std::unique_ptr<Outgoing>> outgoing_;
  std::size_t most_outgoing_ = 64;  // then all of them are looked at
  std::vector<Piece> pieces_;
  std::unique_ptr<SocketTransfer> sockets_;  // with --protocol socket
  std::map<std::uint64_t, std::string> socket_addresses_;
};

}  // namespace weft::objstore
