#pragma once
// PushedHere: objects that other hosts push to this one.
//
// Locks. Manager's turn_mutex_; the server's lock for the objects, and ManagerCore::mutex for the
// counters with the server's lock held.
#include <map>
#include <memory>
#include <set>

#include "objstore/manager/core.hpp"
#include "objstore/manager/members.hpp"
#include "push_groups.hpp"

namespace weft::objstore {

class DirectoryDuties;

class PushedHere {
 public:
  PushedHere(ManagerCore& core, Members& members, DirectoryDuties& directory, PushGroups& groups)
      : core_(core), members_(members), directory_(directory), groups_(groups) {}

  void take_push(std::uint64_t from, const PeerMessage& message);
  void join_group(std::uint64_t from, const PeerMessage& message);
  void push_stopped(std::uint64_t from, std::uint64_t number);
  // By the group's number.
  void pushed_arrived(std::uint64_t key);
  void pushed_ended(std::uint64_t key, Code code);
  void lost_pusher(std::uint64_t member);
  void retry_rooms(std::uint64_t now_ns);

  bool is_empty() const { return pushed_.empty(); }
  // The members whose bytes are waited for.
  void add_awaited(std::set<std::uint64_t>& members) const;
  // At the manager's end: without the server's lock, then with it.
  void end_groups();
  void drop_all();

 private:
  // An object that another host pushes here.
  struct Pushed {
    ObjectId id;
    std::uint64_t from, number;  // the pusher, and its number of the push
    ObjectSizes sizes;
    std::uint64_t room_until_ns = 0;   // room is waited for
    std::uint64_t group_until_ns = 0;  // its group is waited for
    std::uint32_t entry = kNoEntry;    // being written
    std::unique_ptr<PushGroup> group;
  };

  void find_room(std::uint64_t key);
  void stop_pushed(std::uint64_t key);
  void send_push_end(std::uint64_t to, std::uint64_t number, Outcome outcome);

  ManagerCore& core_;
  Members& members_;
  DirectoryDuties& directory_;
  PushGroups& groups_;
  std::map<std::uint64_t, Pushed> pushed_;  // by keys with PushGroups::kPushedHere
  std::uint64_t next_key_ = 1;
  std::uint64_t next_room_ns_ = 0;
};

}  // namespace weft::objstore
