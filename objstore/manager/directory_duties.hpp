#pragma once
// DirectoryDuties: this manager and its directory. It publishes what is sealed here, confirms puts
// that want to be first, and carries out the directory's calls.
//
// Locks. Manager's turn_mutex_; the server's lock for the objects, ManagerCore::mutex for the
// counters and the status.
#include <map>
#include <memory>
#include <unordered_set>

#include "core.hpp"
#include "fetch.hpp"
#include "give.hpp"
#include "members.hpp"
#include "objstore/directory/directory.hpp"

namespace weft::objstore {

class DirectoryDuties final : private DirectoryUser {
 public:
  DirectoryDuties(ManagerCore& core, Members& members, Fetches& fetches, Serving& serving)
      : core_(core), members_(members), fetches_(fetches), serving_(serving) {}

  // unsupported, bad_argument: the directory of the settings.
  Status open();
  // After open().
  Directory& directory() { return *directory_; }

  // The store's objects come and go.
  void sealed(const ObjectId& id);
  void confirm(std::uint64_t number, const ObjectId& id) { confirms_.emplace(number, Confirm{id}); }
  // The object that is sealed next under this id is a copy of another host's.
  void note_copy(const ObjectId& id) { copies_.insert(id); }
  void drop(const ObjectId& id, Dropped why) { must_drop(id, why); }
  // A member that was a store is lost.
  void lost(std::uint64_t generation);
  void refresh_status(std::uint64_t now_ns);

 private:
  struct Confirm {
    ObjectId id;
    bool is_second = false;
  };

  // DirectoryUser
  std::vector<ObjectId> local_objects() override;
  void has_holders(const ObjectId& id, std::span<const std::uint64_t> holders) override {
    fetches_.has_holders(id, holders);
  }
  void was_deleted(const ObjectId& id) override { fetches_.was_deleted(id); }
  void must_drop(const ObjectId& id, Dropped why) override;
  void confirmed(std::uint64_t number) override;
  void send_to(std::uint64_t member, const PeerMessage& message) override {
    members_.send(member, message);
  }
  bool give_to(std::uint64_t member, const PeerMessage& watch) override;
  void learned(const Member& member) override { members_.learned(member); }

  ManagerCore& core_;
  Members& members_;
  Fetches& fetches_;
  Serving& serving_;
  std::unique_ptr<Directory> directory_;
  std::map<std::uint64_t, Confirm> confirms_;
  std::unordered_set<ObjectId> copies_;  // sealed here for another host's; not yet announced
  std::uint64_t num_second_ = 0, next_second_ns_ = 0;  // objects whose id another host had first
  std::uint64_t next_status_ns_ = 0;
};

}  // namespace weft::objstore
