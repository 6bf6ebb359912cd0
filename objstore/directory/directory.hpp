#pragma once
// Directory: the holders of each object among the hosts. A manager announces what it holds, and
// watches objects that it wants. Two kinds with one meaning, which
// tests/objstore/directory_test.cpp checks for both: embedded (embedded.hpp) and in Redis
// (redis.hpp).
//
// Threads. All calls by one, the manager's; DirectoryUser is called from within them.
#include <poll.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "objstore/shared/peer_wire.hpp"

namespace weft::objstore {

// The kind of an announcement; a wire value.
enum class Announced : std::uint8_t {
  again = 0,   // held for some time; the answerer has changed
  copy = 1,    // fetched from another host; refused if the object was deleted meanwhile
  sealed = 2,  // new; refused if another host was first
};

// The reason why a copy must go; a wire value.
enum class Dropped : std::uint8_t {
  erased = 0,
  second = 1,  // another host's object of that id was first
};

// The interface of a directory to its manager.
class DirectoryUser {
 public:
  virtual ~DirectoryUser() = default;
  // The objects that are sealed here, to be announced to a member that knows nothing yet.
  virtual std::vector<ObjectId> local_objects() = 0;
  // Other holders of a watched object; not all of them need be reported at once.
  virtual void has_holders(const ObjectId& id, std::span<const std::uint64_t> holders) = 0;
  // A watched object was deleted.
  virtual void was_deleted(const ObjectId& id) = 0;
  // The copy here has to go.
  virtual void must_drop(const ObjectId& id, Dropped why) = 0;
  // Gives an object that is here to a member whose watch asks for it. False: it is not in memory.
  virtual bool give_to(std::uint64_t member, const PeerMessage& watch) = 0;
  // The answer to Directory::confirm(), after must_drop() if there is to be one.
  virtual void confirmed(std::uint64_t number) = 0;
  // A message for another manager's directory, where there is a connection.
  virtual void send_to(std::uint64_t member, const PeerMessage& message) = 0;
  // The address of a manager that there is no connection to.
  virtual void learned(const Member& member) = 0;
};

class Directory {
 public:
  virtual ~Directory() = default;
  // Announces what is here.
  virtual void open() = 0;
  virtual void announce(const ObjectId& id, Announced kind) = 0;
  virtual void withdraw(const ObjectId& id) = 0;
  // Requests DirectoryUser::confirmed() once earlier announcements of the id are processed. May be
  // lost with a connection.
  virtual void confirm(const ObjectId& id, std::uint64_t number) = 0;
  // has_holders() now and whenever there are more, until unwatch(). ask: numbered if answerer() may
  // give the object at once.
  virtual void watch(const ObjectId& id, const PeerMessage& ask = {}) = 0;
  // The other member that watch() asks, if it is one; else 0.
  virtual std::uint64_t answerer(const ObjectId& id) const = 0;
  virtual void unwatch(const ObjectId& id) = 0;
  // On all hosts; the copy here is gone before.
  virtual void erase(const ObjectId& id) = 0;
  // Connections to managers.
  virtual void joined(std::uint64_t member) = 0;
  virtual void lost(std::uint64_t member) = 0;
  // From another manager's directory.
  virtual void received(std::uint64_t from, const PeerMessage& message) = 0;
  // Does what is due; await() appends the descriptors to wait for.
  virtual void progress(std::uint64_t now_ns) = 0;
  virtual void await(std::vector<pollfd>& descriptors) = 0;
  virtual void status(nlohmann::json& json) = 0;
};

}  // namespace weft::objstore
