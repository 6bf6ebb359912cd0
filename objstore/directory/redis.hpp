#pragma once
// The directory in a Redis server, as in the paper. Managers need not know each other: they find
// their addresses there, too. Keys, all under a prefix:
//
//   PREFIX:members          generations of managers by the time of their last heartbeat; after 10 s
//                           they count as dead
//   PREFIX:addresses        the address of each
//   PREFIX:holders:v5:ID    generations of managers that hold the object
//   PREFIX:watchers:v5:ID   of managers that watch it
//   PREFIX:erased:v5:ID     for a minute after it was deleted
//   PREFIX:early:v5:ID      for a minute after a copy was announced before its original
//
// v5 is kPeerVersion, so that stores of two versions meet there, and report that, but never take
// each other's objects. ID is in hexadecimal digits.
//
// Each manager subscribes to the channel PREFIX:to:GENERATION and receives `holder`, `deleted` or
// `drop`, then the id and a generation. Atomic steps are scripts.
//
// While Redis is away, objects that are here are available, and fetches wait. When it is back, with
// its contents or without, all managers announce again what they hold.
#include <memory>
#include <string>
#include <unordered_set>

#include "directory.hpp"
#include "redis_connection.hpp"

namespace weft::objstore {

class RedisDirectory final : public Directory {
 public:
  // url: redis://HOST[:PORT][/PREFIX]. Throws weft::Error: bad_argument. address: where others
  // reach this manager.
  RedisDirectory(DirectoryUser& user, std::uint64_t self, const std::string& address,
                 const std::string& url);

  void open() override {}  // when there is a connection
  void announce(const ObjectId& id, Announced kind) override;
  void withdraw(const ObjectId& id) override;
  void confirm(const ObjectId& id, std::uint64_t number) override;
  void watch(const ObjectId& id, const PeerMessage& ask) override;
  std::uint64_t answerer(const ObjectId&) const override { return 0; }
  void unwatch(const ObjectId& id) override;
  void erase(const ObjectId& id) override;
  void joined(std::uint64_t member) override;
  void lost(std::uint64_t) override {}
  void received(std::uint64_t, const PeerMessage&) override {}
  void progress(std::uint64_t now_ns) override;
  void await(std::vector<pollfd>& descriptors) override;
  void status(nlohmann::json& json) override;

 private:
  struct Location {
    std::string host, prefix;
    int port;
  };
  static Location parse(const std::string& url);
  void connected();
  void pushed(const redisReply& reply);
  void heartbeat(std::uint64_t now_ns);
  std::string key(const char* kind, const ObjectId& id) const;
  // A script, with the prefix, this manager's generation and an id before its own words.
  void script(const char* text, const ObjectId& id, std::vector<std::string> words = {},
              Redis::Answer answer = {});

  DirectoryUser& user_;
  const std::uint64_t self_;
  const std::string self_text_, address_;
  const Location location_;
  std::unordered_set<ObjectId> watched_;
  std::unordered_set<ObjectId> unsent_erased_;  // while Redis was away
  std::uint64_t next_heartbeat_ns_ = 0;
  std::size_t num_members_ = 0;
  bool is_new_ = false;  // to announce all
  Redis commands_, pushes_;
};

}  // namespace weft::objstore
