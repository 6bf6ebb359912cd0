#pragma once
// Pushes: objects that go to many hosts at once, the side of the host that has them.
//
// Locks. Manager's turn_mutex_; the server's lock for the objects and the results, and
// ManagerCore::mutex for the counters and the names of peers, also with the server's lock held.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "objstore/manager/core.hpp"
#include "objstore/manager/members.hpp"
#include "push_groups.hpp"

namespace weft::objstore {

class Pushes {
 public:
  Pushes(ManagerCore& core, Members& members, PushGroups& groups)
      : core_(core), members_(members), groups_(groups) {}

  // Ends with Server::pushed().
  void start_push(std::uint64_t number, const ObjectId& id, const std::vector<std::string>& hosts);
  void give_up_push(std::uint64_t number);
  void push_answered(std::uint64_t from, const PeerMessage& message);
  void push_ended(std::uint64_t from, const PeerMessage& message);
  void group_ended(std::uint64_t number, Code code);
  void lost_target(std::uint64_t member);
  void end_late_pushes(std::uint64_t now_ns);

  bool is_empty() const { return pushes_.empty(); }
  // The members whose results are waited for.
  void add_awaited(std::set<std::uint64_t>& members) const;
  // At the manager's end: without the server's lock, then with it.
  void end_groups();
  void drop_all();

 private:
  struct Target {
    enum class State { connecting, asked, ready, ended } state = State::connecting;
    std::string host;  // as the caller named it
    std::uint64_t generation = 0;
    std::string group_address;  // ready
    Outcome outcome;            // ended
    bool is_same = false;       // as one before it
    bool is_open() const { return state != State::ended; }
  };
  // An object that goes to others at once.
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

  void find_target(std::uint64_t number, std::size_t place);
  void found_target(std::uint64_t number, std::size_t place, std::uint64_t generation);
  void advance_push(std::uint64_t number);
  void begin_group(std::uint64_t number, Push& push);
  void stop_push_at(std::uint64_t host, std::uint64_t number);

  ManagerCore& core_;
  Members& members_;
  PushGroups& groups_;
  std::map<std::uint64_t, Push> pushes_;  // by the store's numbers
};

}  // namespace weft::objstore
