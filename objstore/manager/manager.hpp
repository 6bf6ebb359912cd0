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
// Parts. Members (members.hpp: peers, links, sending), Fetches (fetch.hpp), Serving and
// ReadableMemory (give.hpp, register.hpp), DirectoryDuties (directory_duties.hpp), Replicas
// (copies.hpp), Pushes and PushedHere (push/), SocketRoute (sockets.hpp), Inbox (inbox.hpp).
// Manager joins them: it dispatches commands and messages, and decides which thread has the turn.
//
// Threads. run() is the manager's thread. The store's thread leaves commands in the inbox, and
// serves it itself if the manager's is not at work, which saves a fetch one hand-over.
//
// Locks. turn_mutex_ decides which thread that is: all parts but the inbox belong to the thread
// that holds it. Under it the server's lock is taken, and under either ManagerCore::mutex, the last
// one. Calls of Remote come with the server's lock held, and take ManagerCore::mutex alone.
#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "copies.hpp"
#include "core.hpp"
#include "directory_duties.hpp"
#include "fetch.hpp"
#include "give.hpp"
#include "inbox.hpp"
#include "members.hpp"
#include "push/push.hpp"
#include "push/pushed.hpp"
#include "sockets.hpp"

namespace weft::objstore {

class Manager final : public Remote, private Helper, private MembersUser {
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
  bool help() override;  // Helper
  void idle() override;
  bool take_turn(std::uint64_t now_ns);
  static bool takes_long(const PeerMessage& message);
  bool process_set_aside();
  bool serve_inbox();
  void carry_out(Command& command);
  void received(const Peer& peer, std::span<const std::byte> bytes);
  void process(const Peer& peer, const PeerMessage& message);
  void ping_pushes(std::uint64_t now_ns);
  void end_groups();
  // MembersUser
  void handle(std::uint64_t from, const PeerMessage& message) override;
  void met(std::uint64_t generation) override { fetches_.advance_those_of(generation); }
  void greeted(std::uint64_t generation) override { sockets_.send_address(generation); }
  void store_joined(std::uint64_t generation) override {
    directory_.directory().joined(generation);
  }
  void links_lost(std::uint64_t generation) override;
  void forget_peer(std::uint64_t generation) override;

  // Not where the manager's work may take long: clients would wait for the store's thread.
  const bool may_be_helped_;
  ManagerCore core_;  // its Node outlives the operations of the parts below
  Inbox inbox_;

  std::mutex turn_mutex_;
  std::atomic<std::size_t> num_fetches_{0};
  bool has_helped_ = false;  // the store's thread's
  // Under turn_mutex_: whether the store's thread has the turn, and the messages that it leaves to
  // the manager's, as clients would wait for it.
  bool is_helping_ = false;
  std::deque<std::pair<Peer, std::vector<std::byte>>> set_aside_;

  // Under turn_mutex_.
  Members members_;
  SocketRoute sockets_;
  Fetches fetches_;
  Serving serving_;
  DirectoryDuties directory_;
  Replicas replicas_;
  PushGroups groups_;
  Pushes pushes_;
  PushedHere pushed_;
  std::uint64_t next_ping_ns_ = 0;
};

}  // namespace weft::objstore
