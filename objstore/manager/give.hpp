#pragma once
// Serving: the holder's side of transfers. It answers asks with the bytes or with an offer, and
// holds offered objects until their leases end.
//
// Locks. Manager's turn_mutex_; the server's lock for the objects, ManagerCore::mutex for the
// counters.
#include <span>
#include <unordered_map>
#include <vector>

#include "core.hpp"
#include "members.hpp"
#include "register.hpp"

namespace weft::objstore {

class Serving {
 public:
  Serving(ManagerCore& core, Members& members)
      : core_(core), members_(members), memory_(core, members) {}

  void give(std::uint64_t to, const PeerMessage& ask);
  // FIN: the requester needs the object no longer.
  void received_fin(std::uint64_t from, std::uint64_t number);
  void give_restored(const ObjectId& id);
  void forget_restores(std::uint64_t generation);
  void end_leases(std::uint64_t now_ns, std::uint64_t of_peer);
  void repeat_restores(std::uint64_t now_ns);
  void end_registrations() { memory_.end_registrations(); }
  // The manager has ended, and the Node is gone. Called with the server's lock held.
  void drop_all();

 private:
  struct Lease {
    std::uint64_t peer, number;
    std::uint32_t entry;
    std::uint64_t ends_ns;
  };
  // An ask for an object that is being restored.
  struct Restore {
    std::uint64_t to, until_ns;
    PeerMessage ask;
  };

  bool send_contents(std::uint64_t to, PeerMessage answer, std::span<const std::byte> contents);

  ManagerCore& core_;
  Members& members_;
  ReadableMemory memory_;
  std::vector<Lease> leases_;
  std::unordered_multimap<ObjectId, Restore> restores_;
};

}  // namespace weft::objstore
