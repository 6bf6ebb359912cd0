#pragma once
// Replicas: puts that wait until other hosts have the object, too.
//
// Locks. Manager's turn_mutex_; the server's lock to check for an object and to report the end.
#include <map>
#include <set>

#include "core.hpp"
#include "fetch.hpp"
#include "members.hpp"

namespace weft::objstore {

class Replicas {
 public:
  Replicas(ManagerCore& core, Members& members, Fetches& fetches)
      : core_(core), members_(members), fetches_(fetches) {}

  // The side of the host that has the object; ends with Server::replicated().
  void start(std::uint64_t number, const ObjectId& id, std::uint32_t num_others);
  void end_replication(std::uint64_t number);
  void replica_answered(std::uint64_t from, const PeerMessage& message);
  void lost_replica_holder(std::uint64_t member);
  // The replica holder's side.
  void keep(std::uint64_t from, const PeerMessage& message);

 private:
  // An object that gets replicas on other hosts.
  struct Replication {
    ObjectId id;
    std::uint32_t num_others;
    std::set<std::uint64_t> asked, kept, refused;
  };

  void replicate_to(std::uint64_t number);

  ManagerCore& core_;
  Members& members_;
  Fetches& fetches_;
  std::map<std::uint64_t, Replication> replications_;
};

}  // namespace weft::objstore
