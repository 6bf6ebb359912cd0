#pragma once
// Fetches: the requester's side of transfers, for local waits, for reads into clients' memory, and
// for replicas that other hosts want kept here.
//
// Files: fetch.cpp (starting, asking holders), fetch_read.cpp (room, reads, the end), sockets.cpp
// (with --protocol socket).
//
// Locks. Manager's turn_mutex_. Fetches take the server's lock for the objects and the waits, and
// ManagerCore::mutex for the counters, also with the server's lock held.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core.hpp"
#include "members.hpp"

namespace weft::objstore {

class DirectoryDuties;
class SocketRoute;

// A holder that was asked, until nothing more is to be read from it.
struct Ask {
  // Of an object: data, then metadata.
  struct Range {
    std::uint64_t begin = 0, bytes = 0;
  };
  std::uint64_t number = 0, holder = 0, asked_ns = 0;
  bool owes_fin = true;
  bool has_offered = false;
  ObjectSizes sizes;  // of the offer, as the next two
  std::vector<OfferPart> parts;
  std::uint64_t lease_ms = 0;
  bool is_reading = false;
  bool has_given = false;  // something of it was read
  Range piece;             // that is read now
  Operation read;
  std::vector<PeerMemory> memories;
};

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
  ObjectSizes sizes;
  std::uint32_t entry = kNoEntry;
  std::byte* to = nullptr;             // the address of byte `begin`
  std::uint64_t begin = 0, bytes = 0;  // what is wanted of the object
  int num_wrong = 0;                   // copies whose checksum was another
  std::deque<Ask::Range> missing;      // and not being read
};

class Fetches {
 public:
  // Longer objects are not for the store's thread, whose clients wait meanwhile.
  static constexpr std::uint64_t kLongBytes = 1 << 20;

  Fetches(ManagerCore& core, Members& members, DirectoryDuties& directory, SocketRoute& sockets)
      : core_(core), members_(members), directory_(directory), sockets_(sockets) {}

  // Requests of the store.
  void start(const ObjectId& id);
  void unwanted(const ObjectId& id);
  void start_into(std::uint64_t number, IntoTarget target);
  void no_more_into(std::uint64_t number);
  // A host that has the object wants a replica here; answered by `kept` or `unkept`.
  void keep(std::uint64_t from, const ObjectId& id, std::uint64_t number);

  // Messages and the directory's news.
  void received_answer(std::uint64_t from, const PeerMessage& message);
  void not_given(std::uint64_t from, std::uint64_t number);
  void has_holders(const ObjectId& id, std::span<const std::uint64_t> holders);
  void was_deleted(const ObjectId& id);
  void lost_holder(std::uint64_t generation);
  void advance_those_of(std::uint64_t holder);

  // Does what is due.
  void end_reads();
  void retry_fetches(std::uint64_t now_ns);
  std::size_t size() const { return fetches_.size(); }
  bool has_long() const { return num_long_ != 0; }
  // The manager has ended, and the Node is gone. Called with the server's lock held.
  void abort_all();

  // sockets.cpp: the asks of SocketTransfer, by their numbers.
  std::byte* room_for_socket(std::uint64_t number, std::uint64_t data_bytes,
                             std::uint32_t metadata_bytes);
  void socket_arrived(std::uint64_t number);
  void socket_failed(std::uint64_t number, bool is_absent);

 private:
  using Range = Ask::Range;
  // An object of so many bytes is asked of several holders, each of which gives pieces as fast as
  // it can.
  static constexpr std::uint64_t kManyBytes = 8 << 20;
  static constexpr std::size_t kMostHolders = 4;

  // fetch.cpp
  Fetch* fetch_of(const ObjectId& id);
  std::vector<Fetch*> fetches_of(const ObjectId& id);
  void leave(Fetch& fetch, Outcome outcome);
  void watch(Fetch& fetch);
  PeerMessage new_ask(Fetch& fetch, std::uint64_t holder);
  bool ask_more(Fetch& fetch);
  void end_ask(Fetch& fetch, const Ask& ask, bool has_failed);
  void end_asks(Fetch& fetch);
  static bool is_in_time(const Ask& ask);
  void answered(Fetch& fetch, std::uint64_t from, const PeerMessage& message);
  void answer_replica_requests(const Fetch& fetch);
  void retry_at(Fetch& fetch, std::uint64_t ns);
  // fetch_read.cpp
  bool make_place(Fetch& fetch, const ObjectSizes& sizes);
  void lose_place(Fetch& fetch);
  static bool is_reading(const Fetch& fetch);
  void advance(Fetch& fetch);
  std::uint64_t piece_bytes(const Fetch& fetch) const;
  bool is_right(Fetch& fetch);
  bool read_piece(Fetch& fetch, Ask& ask);
  void finish(Fetch& fetch);
  void forget(Fetch& fetch);
  // sockets.cpp
  Ask& socket_ask(std::uint64_t number);

  ManagerCore& core_;
  Members& members_;
  DirectoryDuties& directory_;
  SocketRoute& sockets_;
  int num_long_ = 0;  // fetches of long objects
  // Per id one that is sealed here, and any number into clients' memory.
  std::unordered_multimap<ObjectId, std::unique_ptr<Fetch>> fetches_;
  std::unordered_map<std::uint64_t, Fetch*> asks_;
  std::uint64_t next_number_ = 1;
  // The fetches with reads, so that a list of thousands is not searched for each completion.
  std::unordered_set<Fetch*> reading_;
  std::multimap<std::uint64_t, ObjectId> retries_;  // by time; checked against Fetch::retry_ns
};

}  // namespace weft::objstore
