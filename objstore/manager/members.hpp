#pragma once
// Members: the managers of other hosts, the links to them, and sending over these. members.cpp has
// the protocol of two managers that meet.
//
// Lock. Manager's turn_mutex_; the names of peers, in ManagerCore, are under ManagerCore::mutex.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core.hpp"
#include "objstore/shared/peer_wire.hpp"

namespace weft::objstore {

// The interface of Members to the other parts of the manager.
class MembersUser {
 public:
  virtual ~MembersUser() = default;
  // A message that this manager sends to itself.
  virtual void handle(std::uint64_t from, const PeerMessage& message) = 0;
  // A meeting has begun: the peer can be sent messages; and a greeting was sent to it.
  virtual void met(std::uint64_t generation) = 0;
  virtual void greeted(std::uint64_t generation) = 0;
  // The peer's greeting has come: it is a store.
  virtual void store_joined(std::uint64_t generation) = 0;
  // All links to the peer are lost; forget_peer() follows.
  virtual void links_lost(std::uint64_t generation) = 0;
  // The end of a meeting: everything of it is over.
  virtual void forget_peer(std::uint64_t generation) = 0;
};

// Messages whose memory the Node still reads.
class Outbox {
 public:
  void send(Node& node, const Peer& link, const PeerMessage& message);
  void forget_sent();

 private:
  struct Outgoing {
    std::string bytes;
    Operation operation;
  };
  std::deque<std::unique_ptr<Outgoing>> outgoing_;
  std::size_t most_outgoing_ = 64;  // then all of them are checked
};

class Members {
 public:
  Members(ManagerCore& core, MembersUser& user) : core_(core), user_(user) {}

  // bad_argument: an address of --peers that can never be one.
  Status check_peers() const;

  // Calls of the Node.
  void joined(const Peer& peer);
  void lost(const Peer& peer, const Status& why);
  void received_members(const Peer& peer, const PeerMessage& message);
  // A message of another version of the protocol; logged once a peer.
  void log_version(const Peer& peer, std::uint8_t version);

  // Over the current link, or to this manager itself; dropped if there is no link.
  void send(std::uint64_t to, const PeerMessage& message);
  void forget_sent() { outbox_.forget_sent(); }
  // Connects to known addresses without a link, each second.
  void connect_missing(std::uint64_t now_ns);
  void learned(const Member& member);
  // The link of an address, connected to earlier: its generation, or 0.
  std::uint64_t connected_to(const std::string& address) const;
  void note_connected(const std::string& address, std::uint64_t generation) {
    connected_[address] = generation;
  }

  bool has_link(std::uint64_t generation) const { return peers_.contains(generation); }
  // nullptr: there is none.
  const Peer* link(std::uint64_t generation) const;
  const std::set<std::uint64_t>& stores() const { return stores_; }
  // True if the peer was a store.
  bool forget_store(std::uint64_t generation) { return stores_.erase(generation) != 0; }

 private:
  // members.cpp has the protocol of a meeting.
  struct Meeting {
    std::uint64_t number = 0;  // higher than of those before
    std::uint64_t theirs = 0;  // the peer's own, from its greeting; 0: none yet
    bool was_lost = false;     // before, and has not greeted since
  };

  void connect(const std::string& address);
  void forget_silent(std::uint64_t now_ns);
  void meet(std::uint64_t generation);
  void greet(std::uint64_t generation);
  void received_greeting(const Peer& peer, std::uint64_t number);
  std::string address_of(std::uint64_t generation) const;
  void log_connecting(const std::string& address, const Status& status);

  ManagerCore& core_;
  MembersUser& user_;
  Outbox outbox_;
  std::map<std::uint64_t, Peer> peers_;        // their current links
  std::map<std::uint64_t, Meeting> meetings_;  // of all of them
  std::uint64_t num_meetings_ = 0;
  std::set<std::uint64_t> stores_;  // peers that have greeted as stores
  std::vector<Peer> spares_;        // further links to some of them
  std::map<std::uint64_t, std::string> addresses_;
  std::map<std::uint64_t, std::uint64_t> silent_since_ns_;  // of those that were lost
  std::map<std::string, std::uint64_t> connected_;          // a configured address -> generation
  std::set<std::string> connecting_;
  std::map<std::string, std::string> troubles_;  // of configured addresses, as logged
  std::set<std::uint64_t> other_versions_;       // peers, as logged
  std::uint64_t next_connect_ns_ = 0;
};

}  // namespace weft::objstore
